package bench

import "testing"

// BenchmarkRouter reports the CPU time of a request through the router and its ratio to a bare proxy's.
func BenchmarkRouter(b *testing.B) {
	for b.Loop() {
		report, err := measureRouter(b.Context(), nil)
		if err != nil {
			b.Fatal(err)
		}
		b.ReportMetric(report.Rows[0].Ours, "µs/request")
		b.ReportMetric(report.Rows[0].Ratio(), "x")
	}
}
