//go:build race

package router_test

// crowdSize is small with the race detector, which allows some 8,000 goroutines.
const crowdSize = 2000
