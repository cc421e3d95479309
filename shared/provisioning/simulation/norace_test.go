//go:build !race

package simulation

// raceDetector is true in tests with the race detector, which makes schedules ten times slower.
const raceDetector = false
