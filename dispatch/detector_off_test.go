//go:build !race

package dispatch_test

const raceDetector = false
