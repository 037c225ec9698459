package main

import (
	"errors"
	"fmt"
	"os"
	"time"

	"execworker/telemetry"
)

// traceSettings are those of traces, beside the variables that OpenTelemetry
// defines itself (OTEL_*).
type traceSettings struct {
	TraceIDs            string     `name:"trace-ids" env:"TRACE_IDS" default:"deterministic" placeholder:"WORD" help:"deterministic: made of sandbox and req_id, so that a caller can find the trace; or random."`
	TraceSlow           span       `env:"TRACE_SLOW" default:"10s" placeholder:"TIME" help:"Export an exec that was not sampled if it took so long, or failed. 0: never."`
	TraceChildEnv       strictBool `env:"TRACE_CHILD_ENV" default:"1" empty:"refused" help:"Give commands a TRACEPARENT: 0, 1, true or false."`
	TraceNonzeroIsError strictBool `env:"TRACE_NONZERO_IS_ERROR" default:"0" empty:"refused" help:"Count a nonzero exit code as an error of the exec: 0, 1, true or false."`
}

func (s traceSettings) problem() error {
	_, err := telemetry.ReadExportOptions(os.Getenv)
	problems := []error{err, oneOf("TRACE_IDS", s.TraceIDs, "deterministic", "random")}
	if s.TraceSlow < 0 {
		problems = append(problems, fmt.Errorf("TRACE_SLOW is negative (%s): set 0 to keep none", s.TraceSlow))
	}
	return errors.Join(problems...)
}

func (s traceSettings) traces(sandboxID string) telemetry.TraceOptions {
	return telemetry.TraceOptions{
		SandboxID: sandboxID, RandomIDs: s.TraceIDs == "random", Slow: time.Duration(s.TraceSlow),
		NoChildEnv: !bool(s.TraceChildEnv), NonzeroBad: bool(s.TraceNonzeroIsError),
	}
}
