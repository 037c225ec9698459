//go:build !amd64

package process

var oldCalls map[uintptr]call
