package telemetry

import (
	"context"
	"fmt"
	"io"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlpmetric/otlpmetricgrpc"
	"go.opentelemetry.io/otel/exporters/otlp/otlpmetric/otlpmetrichttp"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracegrpc"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/exporters/stdout/stdouttrace"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
)

// Names of exporters, as OTEL_TRACES_EXPORTER and OTEL_METRICS_EXPORTER have them.
const (
	exporterNone    = "none"
	exporterOTLP    = "otlp"
	exporterConsole = "console"

	protocolGRPC = "grpc"
	protocolHTTP = "http/protobuf"
)

// ExportOptions say what is sent where. They are read from the variables that
// OpenTelemetry defines; what is not listed here (endpoints, headers, batching)
// the SDK reads from the environment itself.
type ExportOptions struct {
	Traces          string // exporterNone, exporterOTLP or exporterConsole
	TracesProtocol  string
	TracesEndpoint  string // without user and password; for showing only
	Metrics         string // exporterNone or exporterOTLP
	MetricsProtocol string
	MetricsEndpoint string
	Ratio           float64
	Console         io.Writer // of exporterConsole
}

// ReadExportOptions reads the variables. With nothing configured nothing is
// exported, and nothing is retried: that is not OpenTelemetry's default, which
// sends to localhost, but what a worker without a collector wants. A value that
// is none is an error that names the variable.
func ReadExportOptions(getenv func(string) string) (o ExportOptions, err error) {
	disabled, err := boolean("OTEL_SDK_DISABLED", getenv)
	if err != nil {
		return o, err
	}
	if o.Traces, o.TracesProtocol, o.TracesEndpoint, err = signal("TRACES", getenv, exporterConsole); err != nil {
		return o, err
	}
	if o.Metrics, o.MetricsProtocol, o.MetricsEndpoint, err = signal("METRICS", getenv); err != nil {
		return o, err
	}
	if o.Ratio, err = ratio(getenv); err != nil {
		return o, err
	}
	if disabled {
		o.Traces, o.Metrics = exporterNone, exporterNone
	}
	return o, nil
}

func boolean(name string, getenv func(string) string) (bool, error) {
	switch value := getenv(name); strings.ToLower(value) {
	case "", "false":
		return false, nil
	case "true":
		return true, nil
	default:
		return false, fmt.Errorf("%s is %q: want true or false", name, value)
	}
}

// signal reads the exporter of one signal: what is asked for, or OTLP if there is
// an endpoint for it.
func signal(name string, getenv func(string) string, also ...string) (exporter, protocol, endpoint string, err error) {
	endpoint = getenv("OTEL_EXPORTER_OTLP_" + name + "_ENDPOINT")
	if endpoint == "" {
		endpoint = getenv("OTEL_EXPORTER_OTLP_ENDPOINT")
	}
	exporter = getenv("OTEL_" + name + "_EXPORTER")
	if exporter == "" {
		exporter = exporterNone
		if endpoint != "" {
			exporter = exporterOTLP
		}
	}
	if known := append([]string{exporterNone, exporterOTLP}, also...); !slices.Contains(known, exporter) {
		return "", "", "", fmt.Errorf("OTEL_%s_EXPORTER is %q: want one of %s", name, exporter, strings.Join(known, ", "))
	}
	protocol, from := getenv("OTEL_EXPORTER_OTLP_"+name+"_PROTOCOL"), "OTEL_EXPORTER_OTLP_"+name+"_PROTOCOL"
	if protocol == "" {
		protocol, from = getenv("OTEL_EXPORTER_OTLP_PROTOCOL"), "OTEL_EXPORTER_OTLP_PROTOCOL"
	}
	if protocol == "" {
		protocol = protocolHTTP
	}
	if protocol != protocolGRPC && protocol != protocolHTTP {
		return "", "", "", fmt.Errorf("%s is %q: want %s or %s", from, protocol, protocolGRPC, protocolHTTP)
	}
	if exporter == exporterNone {
		return exporter, protocol, "", nil
	}
	if endpoint != "" {
		u, err := url.Parse(endpoint)
		if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
			return "", "", "", fmt.Errorf("the OTLP endpoint of %s is no http:// or https:// URL: set OTEL_EXPORTER_OTLP_ENDPOINT to one such as http://collector:4317", strings.ToLower(name))
		}
		u.User, u.RawQuery = nil, "" // they may hold secrets
		endpoint = u.String()
	}
	return exporter, protocol, endpoint, nil
}

// ratio reads the sampler. Roots here have no parent, so those that ask the
// parent are what they are without one.
func ratio(getenv func(string) string) (float64, error) {
	switch name := strings.TrimPrefix(getenv("OTEL_TRACES_SAMPLER"), "parentbased_"); name {
	case "", "always_on":
		return 1, nil
	case "always_off":
		return 0, nil
	case "traceidratio":
		arg := getenv("OTEL_TRACES_SAMPLER_ARG")
		if arg == "" {
			return 1, nil
		}
		r, err := strconv.ParseFloat(arg, 64)
		if err != nil || !(r >= 0 && r <= 1) {
			return 0, fmt.Errorf("OTEL_TRACES_SAMPLER_ARG is %q: want a number from 0 to 1", arg)
		}
		return r, nil
	default:
		return 0, fmt.Errorf("OTEL_TRACES_SAMPLER is %q: want always_on, always_off, traceidratio, or one of them behind parentbased_", getenv("OTEL_TRACES_SAMPLER"))
	}
}

// NewResource says who sends: OTEL_SERVICE_NAME and OTEL_RESOURCE_ATTRIBUTES
// over what we know ourselves.
func NewResource(version, instance, sandboxID string) (*resource.Resource, error) {
	own := resource.NewSchemaless(
		attribute.String("service.name", "execworker"), attribute.String("service.version", version),
		attribute.String("service.instance.id", instance), attribute.String("sandbox.id", sandboxID))
	given, err := resource.New(context.Background(), resource.WithFromEnv())
	if err != nil {
		return nil, fmt.Errorf("OTEL_RESOURCE_ATTRIBUTES: %w", err)
	}
	return resource.Merge(own, given)
}

// spanExporter makes what traces are sent with; nil for none.
func (o ExportOptions) spanExporter(ctx context.Context) (sdktrace.SpanExporter, error) {
	switch {
	case o.Traces == exporterConsole:
		return stdouttrace.New(stdouttrace.WithWriter(o.Console))
	case o.Traces == exporterNone:
		return nil, nil
	case o.TracesProtocol == protocolGRPC:
		return otlptracegrpc.New(ctx)
	}
	return otlptracehttp.New(ctx)
}

// metricReader makes what metrics are sent with; nil for none.
func (o ExportOptions) metricReader(ctx context.Context, state *exporterState) (sdkmetric.Reader, error) {
	var exporter sdkmetric.Exporter
	var err error
	switch {
	case o.Metrics == exporterNone:
		return nil, nil
	case o.MetricsProtocol == protocolGRPC:
		exporter, err = otlpmetricgrpc.New(ctx)
	default:
		exporter, err = otlpmetrichttp.New(ctx)
	}
	if err != nil {
		return nil, err
	}
	return sdkmetric.NewPeriodicReader(countedMetrics{exporter, state}), nil
}

// spanLimits bound what a span may hold: the SDK's own, read from OTEL_SPAN_*,
// and a length of values, which it leaves unbounded.
func spanLimits() sdktrace.SpanLimits {
	const longest = 1 << 10
	limits := sdktrace.NewSpanLimits()
	if limits.AttributeValueLengthLimit < 0 {
		limits.AttributeValueLengthLimit = longest
	}
	return limits
}

// exportTimeout bounds the flush at the end, whatever a collector does.
const exportTimeout = 3 * time.Second
