package main

import (
	"slices"
	"time"
)

// quantile interpolates between the two samples around q. It does not change
// samples.
func quantile(samples []float64, q float64) float64 {
	if len(samples) == 0 {
		return 0
	}
	s := slices.Sorted(slices.Values(samples))
	at := q * float64(len(s)-1)
	low := int(at)
	high := min(low+1, len(s)-1)
	return s[low] + (s[high]-s[low])*(at-float64(low))
}

func median(samples []float64) float64 { return quantile(samples, 0.5) }

// in converts durations to a unit.
func in(unit time.Duration, ds []time.Duration) []float64 {
	figures := make([]float64, len(ds))
	for i, d := range ds {
		figures[i] = float64(d) / float64(unit)
	}
	return figures
}

// millis is one duration in ms.
func millis(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
