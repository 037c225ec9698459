// Package process starts and ends every child process of the program.
package process
