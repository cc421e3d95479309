//go:build !race

package testtier

// RaceDetector is true in tests with the race detector, which makes random schedules ten times slower.
const RaceDetector = false
