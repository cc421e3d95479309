//go:build race

package simulationtest

// raceDetector is true in tests with the race detector, which makes schedules ten times slower.
const raceDetector = true
