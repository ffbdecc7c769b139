//go:build race

package dispatch_test

// raceDetector slows everything that runs in virtual time about twentyfold.
const raceDetector = true
