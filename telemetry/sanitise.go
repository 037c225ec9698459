package telemetry

import (
	"context"
	"fmt"
	"log/slog"
	"unicode/utf8"
)

// sanitiser passes records on with every text in them made Visible: message,
// keys, groups, and values of whatever type, which all become text here unless
// they are numbers, booleans, durations or times. It stands before any handler,
// because a handler decides late, and each in its own way, how a value is printed.
type sanitiser struct{ next slog.Handler }

var _ slog.Handler = sanitiser{}

func (h sanitiser) Enabled(ctx context.Context, level slog.Level) bool {
	return h.next.Enabled(ctx, level)
}

func (h sanitiser) Handle(ctx context.Context, r slog.Record) error {
	clean := slog.NewRecord(r.Time, r.Level, Visible(r.Message), r.PC)
	r.Attrs(func(a slog.Attr) bool {
		clean.AddAttrs(cleanAttr(a))
		return true
	})
	return h.next.Handle(ctx, clean)
}

func (h sanitiser) WithAttrs(attrs []slog.Attr) slog.Handler {
	return sanitiser{next: h.next.WithAttrs(cleanAttrs(attrs))}
}

func (h sanitiser) WithGroup(name string) slog.Handler {
	return sanitiser{next: h.next.WithGroup(Visible(name))}
}

func cleanAttrs(attrs []slog.Attr) []slog.Attr {
	clean := make([]slog.Attr, len(attrs))
	for i, a := range attrs {
		clean[i] = cleanAttr(a)
	}
	return clean
}

func cleanAttr(a slog.Attr) slog.Attr {
	return slog.Attr{Key: Visible(a.Key), Value: cleanValue(a.Value)}
}

func cleanValue(v slog.Value) slog.Value {
	v = v.Resolve() // runs a LogValuer, and survives one that panics
	switch v.Kind() {
	case slog.KindBool, slog.KindInt64, slog.KindUint64, slog.KindFloat64, slog.KindDuration, slog.KindTime:
		return v
	case slog.KindString:
		return slog.StringValue(Visible(v.String()))
	case slog.KindGroup:
		return slog.GroupValue(cleanAttrs(v.Group())...)
	default:
		return slog.StringValue(Visible(text(v.Any())))
	}
}

// text says any value in words. fmt asks errors and Stringers, at any depth,
// and catches their panics.
func text(v any) string {
	switch v := v.(type) {
	case nil:
		return "<nil>"
	case []byte:
		if utf8.Valid(v) {
			return string(v)
		}
		return fmt.Sprintf("%x", v)
	case error, fmt.Stringer:
		return fmt.Sprint(v)
	default:
		return fmt.Sprintf("%+v", v)
	}
}
