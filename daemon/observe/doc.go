// Package observe holds the words for what happened in the worker (events) and
// for what is (snapshots).
//
// The core reports each fact once, through an Observer; spans, metrics, logs,
// the page and the command line are made from that and from nothing else, so
// they cannot disagree. The package imports nothing of this module and knows
// neither the wire nor any way of showing things.
//
// Text that came from outside (commands, reasons, errors that quote them) is
// kept as it came. Whoever shows it makes it safe for the place it goes to.
package observe
