// Package telemetry makes logs, metrics and traces of what the observe package
// reports.
//
// All are observers: each fact comes to them once, from the core, and none holds
// the worker up. A log line goes through a [LineWriter], which never waits; a
// metric is some additions in memory, made into text when somebody asks for it
// ([Metrics.Handler]); a span that has ended goes into a queue that drops when it
// is full. [Exports] is what leaves the worker for a collector, if there is one.
//
// Text from outside (commands, reasons, errors that quote them) can be made to
// look like log lines or to drive a terminal. So log messages are constants,
// such text only comes in attributes, and one handler makes all of it visible
// and harmless before any other handler sees it. Metrics and spans take no text
// from outside: each label and attribute has a fixed list of values, and what is
// not on the list is "other"; the name of a command's program is a plain word.
package telemetry
