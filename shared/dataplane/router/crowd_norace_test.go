//go:build !race

package router_test

// crowdSize is the number of connections to one agent.
const crowdSize = 10_000
