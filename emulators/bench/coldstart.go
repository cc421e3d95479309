package bench

import (
	"cmp"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"path/filepath"
	"slices"
	"strconv"

	"agents.example/controlplane/emulators/cloudrun"
	"agents.example/controlplane/emulators/dataplane"
	"agents.example/controlplane/emulators/process"
	"agents.example/controlplane/shared/function"
)

const (
	startRounds = 11
	// startMemory is the target of the resident memory of the role api after its first answer, in KiB.
	startMemory = 24 << 10
	// startAllocations is the target of the allocations of a role before main.
	startAllocations = 10_000
	// providerAllocations are those of a program that links functions-framework, Firestore's library and Firebase's,
	// and no code of ours. The role accounts needs all three.
	providerAllocations = 10_057
	// accountsRatio has room for what accounts links in addition: the client of clusters, whose logs it reads.
	accountsRatio = 1.45
)

// coldStart is a program that starts and answers one request.
type coldStart struct {
	what, binary, target string
	// method and path are those of the first request, and want is the status of its answer; GET and 200 if they are not
	// set.
	method, path string
	want         int
	// env is added to the environment of all programs.
	env []string
}

// comparedStart is a start of a role, and what it is compared with.
type comparedStart struct {
	coldStart
	// most is the target: the largest ratio of its CPU time to that of the program it is compared with.
	most float64
	// oneRead compares it with the least program that reads Firestore, because a route of agents cannot start with less
	// CPU time; otherwise that is the least program with one handler.
	oneRead bool
	// memory says that its memory is a figure, too.
	memory bool
}

// measureColdStart measures P5: the CPU time of each role from its start to its first answer, compared with hello, and
// what its packages allocate before main. The programs take turns, so that the load of the machine affects all alike.
func measureColdStart(ctx context.Context, l *environment, d *deployment) (Report, error) {
	key, id, err := d.createCustomer(ctx)
	if err != nil {
		return Report{}, err
	}
	s, err := l.starter(ctx, d, "emulators/bench/hello", "emulators/bench/leastread", "functions/cmd/api",
		"functions/cmd/accounts", "functions/cmd/worker")
	if err != nil {
		return Report{}, err
	}
	s.key = key
	agent := "/api/v1/agents/" + id
	var report Report
	if l.provisions > 0 { // the rest are counts
		report, err = s.compareAll(ctx, agent)
	}
	if err != nil {
		return Report{}, err
	}
	allocations, err := initRows(ctx, s.dir)
	if err != nil {
		return Report{}, err
	}
	sizes, err := sizeRows(s.dir)
	report.Rows = slices.Concat(report.Rows, allocations, sizes)
	return report, err
}

// compareAll compares the starts of the roles, which read an agent, with those of programs that do less.
func (s starter) compareAll(ctx context.Context, agent string) (Report, error) {
	return s.compare(ctx, []comparedStart{
		{
			coldStart: coldStart{what: "one route of api", binary: "api", target: "GetAgent", path: agent},
			most:      1.5, oneRead: true, memory: true,
		},
		{coldStart: coldStart{what: "all routes of api", binary: "api", path: agent}, most: 4},
		{coldStart: coldStart{what: "all routes of accounts", binary: "accounts", path: agent}, most: 5},
		{
			coldStart: coldStart{
				what: "all workers", binary: "worker", method: http.MethodPost, path: "/workers/ReconcileAgent",
				want: http.StatusUnauthorized,
			},
			most: 4,
		},
	})
}

// starter starts programs with the configuration of a deployment.
type starter struct {
	*deployment
	dir, logs, key, host string
}

// starter builds programs, which are packages of this module.
func (l *environment) starter(ctx context.Context, d *deployment, packages ...string) (starter, error) {
	for i := range packages {
		packages[i] = "agents.example/controlplane/" + packages[i]
	}
	dir, err := dataplane.BuildImagePackages(ctx, packages...)
	return starter{deployment: d, dir: dir, logs: l.dir, key: d.key, host: l.host}, err
}

// compare starts the programs in turns, each time after those that they are compared with.
func (s starter) compare(ctx context.Context, programs []comparedStart) (Report, error) {
	handler := coldStart{what: "one handler", binary: "hello", target: "Hello", path: "/"}
	read := coldStart{what: "one read", binary: "leastread", target: "Hello", path: "/pair"}
	var reads rounds // of the least programs
	cpu := make([]rounds, len(programs))
	memory := make([][]float64, len(programs))
	for range startRounds {
		handled, _, err := s.start(ctx, handler)
		if err != nil {
			return Report{}, err
		}
		readOne, _, err := s.start(ctx, read)
		if err != nil {
			return Report{}, err
		}
		reads.add(readOne, handled)
		for i, p := range programs {
			ms, resident, err := s.start(ctx, p.coldStart)
			if err != nil {
				return Report{}, err
			}
			limit := handled
			if p.oneRead {
				limit = readOne
			}
			cpu[i].add(ms, limit)
			memory[i] = append(memory[i], resident)
		}
	}
	least, err := reads.row()
	if err != nil {
		return Report{}, err
	}
	var starts, memories []Row
	for i, p := range programs {
		row, err := cpu[i].row()
		if err != nil {
			return Report{}, err
		}
		row.ID, row.What, row.Unit, row.Most = "P5", "start of "+p.what, "ms of CPU", p.most
		row.Note = "limit: functions-framework with " + handler.what
		if p.oneRead {
			row.Note = fmt.Sprintf("limit: functions-framework with %s of Firestore, which is %.1f times %s", read.what,
				least.Ratio(), handler.what)
		}
		starts = append(starts, row)
		if p.memory {
			memories = append(memories, Row{
				ID: "P5", What: "memory of " + p.what, Ours: median(memory[i]), Limit: startMemory, Unit: "KiB",
				Most: 1, Timed: true,
			})
		}
	}
	return Report{Rows: slices.Concat(starts, memories)}, nil
}

// start starts a program, and returns its CPU time in milliseconds and its memory in KiB after the first answer.
func (s starter) start(ctx context.Context, p coldStart) (cpu, memory float64, err error) {
	started, _, err := s.launch(ctx, p)
	if err != nil {
		return 0, 0, fmt.Errorf("start %s: %w", p.what, err)
	}
	defer func() { err = errors.Join(err, started.Close()) }()
	used, err := childCPU(started.Pid())
	if err != nil {
		return 0, 0, err
	}
	memory, err = residentKiB(started.Pid())
	return milliseconds(used), memory, err
}

// launch starts a program and waits for its first answer. url is that of the request.
func (s starter) launch(ctx context.Context, p coldStart) (_ *process.Process, url string, err error) {
	port, err := process.FreePort()
	if err != nil {
		return nil, "", err
	}
	url = "http://127.0.0.1:" + strconv.Itoa(port) + p.path
	env := append(s.environment(), "PORT="+strconv.Itoa(port), "FUNCTION_TARGET="+p.target, cloudrun.CPU)
	switch role := function.Role(p.binary); role {
	case function.RoleAPI, function.RoleAccounts, function.RoleExec, function.RoleWorker:
		env = append(env, cloudrun.Environment(role)...)
	}
	started, err := process.Start(ctx, process.Options{
		Name: p.binary, Path: filepath.Join(s.dir, p.binary), LogFile: filepath.Join(s.logs, p.binary+".log"),
		Env: append(env, p.env...),
		Ready: func(ctx context.Context) error {
			req, err := http.NewRequestWithContext(ctx, p.method, url, http.NoBody)
			if err != nil {
				return err
			}
			req.Header.Set("Authorization", "Bearer "+s.key)
			res, err := http.DefaultClient.Do(req)
			if err != nil {
				return err
			}
			want := cmp.Or(p.want, http.StatusOK)
			if err := res.Body.Close(); err != nil || res.StatusCode != want {
				return errors.Join(err, fmt.Errorf("the first answer has status %d, want %d", res.StatusCode, want))
			}
			return nil
		},
	})
	return started, url, err
}

// environment has what each role requires.
func (s starter) environment() []string {
	return []string{
		"LISTEN_HOST=127.0.0.1", "GOOGLE_CLOUD_PROJECT=" + s.project, "ENVIRONMENT=bench",
		"FIRESTORE_EMULATOR_HOST=" + s.host, "PUBSUB_EMULATOR_HOST=127.0.0.1:1",
		"SECRET_MANAGER_ENDPOINT=" + s.secrets.Addr, "MONITORING_ENDPOINT=" + s.monitoring.Addr,
		"IDENTITY_ISSUER=http://127.0.0.1:1", "API_BASE_URL=http://127.0.0.1:1",
		"API_KEY_PEPPER=" + base64.StdEncoding.EncodeToString(s.deps.Pepper), "AGENT_DOMAIN=" + domain,
		"PLATFORM_IMAGE=" + dataplane.Image, `CELLS=[{"name": "cell", "region": "us-central1", "endpoint": "cell.example.com"}]`,
		"PUSH_ISSUER=http://127.0.0.1:1", "PUSH_AUDIENCE=bench",
		"PUSH_SERVICE_ACCOUNT=push@bench.iam.gserviceaccount.com",
		"FIREBASE_AUTH_EMULATOR_HOST=127.0.0.1:1",
	}
}
