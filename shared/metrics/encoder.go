package metrics

import (
	"bytes"
	"strconv"
	"strings"

	"agents.example/controlplane/shared/function"
)

// kind is the type of a metric family.
type kind string

// The kinds. Only OpenMetrics has infos, and names of families without suffix: the text format calls infos gauges.
const (
	kindGauge   kind = "gauge"
	kindCounter kind = "counter"
	kindInfo    kind = "info"
)

// family is a metric with one sample for each agent.
type family struct {
	name, unit, help string
	kind             kind
}

// suffix is what names of samples have in addition to that of a family in OpenMetrics.
func (k kind) suffix() string {
	return map[kind]string{kindCounter: "_total", kindInfo: "_info"}[k]
}

type label struct{ name, value string }

// encoder writes families in the text format of Prometheus, or in that of OpenMetrics, which adds units and an end
// mark.
type encoder struct {
	bytes.Buffer
	openMetrics bool
	// open is the family of the next sample. Its head is written with the first sample: a family without one is left
	// out.
	open    family
	started bool
}

// formats returns the formats that monitoring systems scrape.
func formats(write func(*encoder)) []function.Format {
	encode := func(openMetrics bool) func() []byte {
		return func() []byte {
			e := &encoder{openMetrics: openMetrics}
			write(e)
			if openMetrics {
				e.WriteString("# EOF\n")
			}
			return e.Bytes()
		}
	}
	return []function.Format{
		{ContentType: "application/openmetrics-text; version=1.0.0; charset=utf-8", Encode: encode(true)},
		{ContentType: "text/plain; version=0.0.4; charset=utf-8", Encode: encode(false)},
	}
}

// family begins a family, whose samples follow.
func (e *encoder) family(f family) { e.open, e.started = f, false }

// sample writes a sample of the family, unless it has no value.
func (e *encoder) sample(labels []label, value *float64) {
	if value == nil {
		return
	}
	f := e.open
	if !e.started {
		e.started = true
		name, kind := f.name, f.kind
		if !e.openMetrics {
			name += f.kind.suffix()
			if kind == kindInfo {
				kind = kindGauge
			}
		}
		e.WriteString("# HELP " + name + " " + f.help + "\n# TYPE " + name + " " + string(kind) + "\n")
		if e.openMetrics && f.unit != "" {
			e.WriteString("# UNIT " + name + " " + f.unit + "\n")
		}
	}
	e.WriteString(f.name + f.kind.suffix())
	for i, l := range labels {
		e.WriteString(map[bool]string{true: "{", false: ","}[i == 0] + l.name + `="` + escapeLabel(l.value) + `"`)
	}
	e.WriteString("} " + strconv.FormatFloat(*value, 'g', -1, 64) + "\n")
}

// escapeLabel escapes a value as both formats say. Clients choose the names of agents, so one could otherwise end its
// label and add samples.
func escapeLabel(value string) string {
	return strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`).Replace(strings.ToValidUTF8(value, "\ufffd"))
}
