// Command collector receives OTLP over HTTP with the receiver of the OpenTelemetry collector, and prints what it has understood,
// one line of JSON for each request: for tests of telemetry.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"sync"

	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/component/componenttest"
	"go.opentelemetry.io/collector/confmap"
	"go.opentelemetry.io/collector/consumer"
	"go.opentelemetry.io/collector/pdata/pmetric"
	"go.opentelemetry.io/collector/pdata/ptrace"
	"go.opentelemetry.io/collector/receiver"
	"go.opentelemetry.io/collector/receiver/otlpreceiver"
)

var lines sync.Mutex

func line(kind string, json []byte, err error) error {
	if err == nil {
		lines.Lock()
		defer lines.Unlock()
		fmt.Printf("%s %s\n", kind, json)
	}
	return err
}

func must(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func main() {
	ctx := context.Background()
	factory := otlpreceiver.NewFactory()
	config := factory.CreateDefaultConfig()
	// The address is the argument; only HTTP is wanted.
	must(confmap.NewFromStringMap(map[string]any{
		"protocols": map[string]any{"http": map[string]any{"endpoint": os.Args[1]}},
	}).Unmarshal(config))
	settings := receiver.Settings{
		ID:                component.NewID(factory.Type()),
		TelemetrySettings: componenttest.NewNopTelemetrySettings(),
	}
	metrics, err := consumer.NewMetrics(func(_ context.Context, data pmetric.Metrics) error {
		json, err := (&pmetric.JSONMarshaler{}).MarshalMetrics(data)
		return line("metrics", json, err)
	})
	must(err)
	traces, err := consumer.NewTraces(func(_ context.Context, data ptrace.Traces) error {
		json, err := (&ptrace.JSONMarshaler{}).MarshalTraces(data)
		return line("traces", json, err)
	})
	must(err)
	first, err := factory.CreateMetrics(ctx, settings, config, metrics)
	must(err)
	second, err := factory.CreateTraces(ctx, settings, config, traces)
	must(err)
	must(first.Start(ctx, componenttest.NewNopHost()))
	must(second.Start(ctx, componenttest.NewNopHost()))
	fmt.Println("ready")
	ended := make(chan os.Signal, 1)
	signal.Notify(ended, os.Interrupt)
	<-ended
}
