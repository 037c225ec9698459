// Package telemetry makes logs and metrics of what the observe package reports.
//
// Both are observers: each fact comes to them once, from the core, and neither
// holds the worker up. A log line goes through a [LineWriter], which never
// waits; a metric is some additions in memory, made into text when somebody asks
// for it ([Metrics.Handler]).
//
// Text from outside (commands, reasons, errors that quote them) can be made to
// look like log lines or to drive a terminal. So log messages are constants,
// such text only comes in attributes, and one handler makes all of it visible
// and harmless before any other handler sees it. Metrics take no text from
// outside at all: each label has a fixed list of values, and what is not on the
// list is "other".
package telemetry
