package prices

import "fmt"

// What a flood is made of. Cloud Armor lets FloodPerMinute requests of one address pass (armor.tf). A service has at
// most floodInstances instances (services.tf), each of which writes floodLines a second about them (shared/function).
const (
	FloodPerMinute = 60_000
	floodInstances = 10
	floodLines     = 10
	minutesOfDay   = 24 * 60
	secondsOfDay   = 60 * minutesOfDay
)

// Bytes of stored lines, estimated: of a function, of Cloud Run, and of the load balancer, which writes one of ten.
const (
	functionLine     = 850
	requestLine      = 650
	loadBalancerLine = 1500
	lineSample       = 0.1
)

// Flood lists what a day of requests without a valid token costs, which one address sends as fast as Cloud Armor lets
// it. everyLine is about a deployment that stores every line of the functions, and Cloud Run's own lines.
func (l List) Flood(everyLine bool) []Row {
	const requests = FloodPerMinute * minutesOfDay
	lines := float64(floodInstances * floodLines * secondsOfDay * functionLine)
	if everyLine {
		lines = requests * (functionLine + requestLine)
	}
	gib := func(bytes float64) float64 { return l.Of("log_gib", bytes/(1<<30)) }
	return []Row{
		{"Cloud Armor", l.Of("armor_request", requests)},
		{"Cloud Run's requests", l.Of("request", requests)},
		{
			"Cloud Run's instances, if all 10 are busy",
			l.Of("active_vcpu", floodInstances*secondsOfDay) + l.Of("active_gib", floodInstances*secondsOfDay*routeGiB),
		},
		{"lines of the load balancer, one of ten requests (estimate)", gib(requests * lineSample * loadBalancerLine)},
		{"lines of functions and of Cloud Run (estimate)", gib(lines)},
	}
}

// Floods lists what a flood costs. It returns the rows of a table, of which the first is the head.
func Floods() ([][]string, error) {
	l, err := Load()
	if err != nil {
		return nil, err
	}
	table := [][]string{{
		fmt.Sprintf("a day of %s requests a minute from one address", thousands(FloodPerMinute)), "as deployed",
		"if every line were stored",
	}}
	bounded, all := l.Flood(false), l.Flood(true)
	for i, r := range bounded {
		table = append(table, []string{r.What, "$" + thousands(r.USD), "$" + thousands(all[i].USD)})
	}
	return append(table, []string{
		"**total**", "**$" + thousands(total(bounded)) + "**", "**$" + thousands(total(all)) + "**",
	}), nil
}

func total(rows []Row) (sum float64) {
	for _, r := range rows {
		sum += r.USD
	}
	return sum
}
