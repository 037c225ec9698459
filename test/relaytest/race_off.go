//go:build !race

package relaytest

const raceDetector = false
