package telemetry

import (
	"maps"
	"slices"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"execworker/daemon/observe"
)

const (
	keyErrorType = attribute.Key("error.type")
	keyOutcome   = attribute.Key("outcome")
	keyReason    = attribute.Key("reason")
	keyResult    = attribute.Key("result")
	keySource    = attribute.Key("source")
	keyStream    = attribute.Key("stream")
)

// labels are names with values, made once: to record with them costs no
// allocation.
type labels struct {
	add     []metric.AddOption
	record  []metric.RecordOption
	observe []metric.ObserveOption
}

func with(pairs ...attribute.KeyValue) labels {
	o := metric.WithAttributeSet(attribute.NewSet(pairs...))
	return labels{[]metric.AddOption{o}, []metric.RecordOption{o}, []metric.ObserveOption{o}}
}

// list is every value there is of some labels.
type list[K comparable] struct {
	known map[K]labels
	other func(K) K // makes a known one of what is not
}

// newList makes the list of one label; fixed ones come with each value.
func newList[K ~string](key attribute.Key, other K, values []K, fixed ...attribute.KeyValue) list[K] {
	l := list[K]{known: map[K]labels{}, other: func(K) K { return other }}
	for _, v := range append(slices.Clone(values), other) {
		l.known[v] = with(append(slices.Clone(fixed), key.String(string(v)))...)
	}
	return l
}

func (l list[K]) of(k K) labels {
	if found, ok := l.known[k]; ok {
		return found
	}
	return l.known[l.other(k)]
}

func (l list[K]) all() []labels { return slices.Collect(maps.Values(l.known)) }

// ending is the labels of how an exec ended.
type ending struct {
	outcome   observe.Outcome
	errorType string // see errorType; empty: there is none
	streaming bool
}

func newEndings() list[ending] {
	l := list[ending]{
		known: map[ending]labels{},
		other: func(e ending) ending { return ending{outcome: other, streaming: e.streaming} },
	}
	for _, o := range append(slices.Clone(outcomes), other) {
		types := []string{""}
		switch o {
		case observe.OutcomeSpawnError:
			types = append(slices.Collect(maps.Values(errnos)), otherError)
		case observe.OutcomeSignal:
			types = append(slices.Collect(maps.Keys(signals)), oom, otherError)
		}
		for _, errorType := range types {
			for _, streaming := range []bool{false, true} {
				pairs := []attribute.KeyValue{keyOutcome.String(string(o)), attribute.Bool("streaming", streaming)}
				if errorType != "" {
					pairs = append(pairs, keyErrorType.String(errorType))
				}
				l.known[ending{o, errorType, streaming}] = with(pairs...)
			}
		}
	}
	return l
}

// abortion is the labels of a wish to stop an exec: relay or admin, and
// killed, dequeued or unknown.
type abortion struct{ source, result string }

func newAborts() list[abortion] {
	l := list[abortion]{
		known: map[abortion]labels{},
		other: func(abortion) abortion { return abortion{fromRelay, unknownExec} },
	}
	for _, a := range []abortion{
		{fromRelay, killed}, {fromRelay, dequeued}, {fromRelay, unknownExec},
		{fromAdmin, killed}, {fromAdmin, dequeued},
	} {
		l.known[a] = with(keySource.String(a.source), keyResult.String(a.result))
	}
	return l
}

// words are all labels of the instruments.
type words struct {
	endings list[ending]
	unspawn list[string] // error_type of what could not be spawned
	kills   list[observe.EndedBy]
	refused list[string]
	lookups list[string]
	aborts  list[abortion]
	ends    list[string]
	failed  list[string] // attempts to attach that failed
	states  list[observe.State]

	attached         labels // attempts that did not
	started, aborted labels // how queueing ended
	stdout, stderr   labels
}

func newWords() words {
	return words{
		endings: newEndings(),
		unspawn: newList(keyErrorType, otherError, slices.Collect(maps.Values(errnos))),
		kills:   newList(keyReason, other, enders),
		refused: newList(keyReason, other, append(slices.Collect(maps.Values(busy)),
			refusedCollision, refusedBehind, refusedInvalid)),
		lookups:  newList(keyResult, lookupMiss, []string{lookupHit, lookupReran, lookupRefused}),
		aborts:   newAborts(),
		ends:     newList("end_reason", other, endReasons),
		failed:   newList(keyErrorType, otherError, append(slices.Clone(grpcCodes), shutdown), keyResult.String("failed")),
		states:   newList("state", other, states),
		attached: with(keyResult.String("attached")),
		started:  with(keyOutcome.String("started")),
		aborted:  with(keyOutcome.String("aborted")),
		stdout:   with(keyStream.String("stdout")),
		stderr:   with(keyStream.String("stderr")),
	}
}
