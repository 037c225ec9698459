package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"runtime"
	"text/tabwriter"
	"time"
)

// result is one line of the table.
type result struct {
	Row      string  `json:"row"`
	Measured float64 `json:"measured"`
	Unit     string  `json:"unit"`
	// Floor is 0 where there is none: then the target is about Measured.
	Floor float64 `json:"floor,omitempty"`
	Ratio float64 `json:"ratio,omitempty"`
	// Low and High are the quartiles of the rounds' ratios.
	Low    float64 `json:"low,omitempty"`
	High   float64 `json:"high,omitempty"`
	Rounds int     `json:"rounds"`
	Target target  `json:"target"`
	Note   string  `json:"note,omitempty"`
	Failed bool    `json:"failed,omitempty"` // the note says what is wrong, whatever the figure
	Met    string  `json:"met"`              // ok, miss, or empty without a target
}

// target is a bound for the ratio, or for what was measured where there is no
// floor. The zero value is none.
type target struct {
	Most  float64 `json:"most,omitempty"`
	Least float64 `json:"least,omitempty"`
}

func (t target) String() string {
	switch {
	case t.Most != 0:
		return fmt.Sprintf("<= %.4g", t.Most)
	case t.Least != 0:
		return fmt.Sprintf(">= %.4g", t.Least)
	}
	return "-"
}

// compared makes a result of rounds: each gives one figure of the worker and one
// of the floor.
func compared(name, unit string, worker, floor []float64, t target) result {
	ratios := make([]float64, len(worker))
	for i := range worker {
		ratios[i] = worker[i] / floor[i]
	}
	return result{
		Row: name, Unit: unit, Measured: median(worker), Floor: median(floor),
		Ratio: median(ratios), Low: quantile(ratios, 0.25), High: quantile(ratios, 0.75),
		Rounds: len(worker), Target: t,
	}
}

// absolute makes a result of figures that have no floor.
func absolute(name, unit string, figures []float64, t target) result {
	return result{Row: name, Unit: unit, Measured: median(figures), Rounds: len(figures), Target: t}
}

// judged says whether the target is met.
func (r result) judged() string {
	bounded := r.Ratio
	if r.Floor == 0 {
		bounded = r.Measured
	}
	switch {
	case r.Failed:
		return "miss"
	case r.Target == target{}:
		return ""
	case r.Target.Most != 0 && bounded > r.Target.Most, r.Target.Least != 0 && bounded < r.Target.Least:
		return "miss"
	}
	return "ok"
}

func printTable(w io.Writer, results []result) {
	if len(results) == 0 {
		return
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "row\tmeasured\tfloor\tratio\tquartiles\ttarget\t\tnote")
	for _, r := range results {
		floor, ratio, quartiles := "-", "-", "-"
		if r.Floor != 0 {
			floor = fmt.Sprintf("%.4g", r.Floor)
			ratio = fmt.Sprintf("%.3f", r.Ratio)
			quartiles = fmt.Sprintf("%.2f..%.2f", r.Low, r.High)
		}
		fmt.Fprintf(t, "%s\t%.4g %s\t%s\t%s\t%s\t%s\t%s\t%s\n",
			r.Row, r.Measured, r.Unit, floor, ratio, quartiles, r.Target, r.judged(), r.Note)
	}
	t.Flush()
}

// report is the whole of the JSON file.
type report struct {
	At      time.Time `json:"at"`
	Go      string    `json:"go"`
	CPUs    int       `json:"cpus"`
	Quick   bool      `json:"quick"`
	UID     int       `json:"uid"`
	Results []result  `json:"results"`
}

func writeJSON(path string, o options, results []result) error {
	uid := o.uid
	if uid < 0 {
		uid = os.Getuid()
	}
	for i := range results {
		results[i].Met = results[i].judged()
	}
	b, err := json.MarshalIndent(report{
		At: time.Now().UTC(), Go: runtime.Version(), CPUs: runtime.NumCPU(), Quick: o.quick, UID: uid, Results: results,
	}, "", "  ")
	if err != nil {
		return fmt.Errorf("write results: %w", err)
	}
	return os.WriteFile(path, append(b, '\n'), 0o644)
}
