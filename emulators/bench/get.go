package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"runtime/pprof"

	"agents.example/controlplane/emulators/issuer"
	"agents.example/controlplane/emulators/process"
	"agents.example/controlplane/shared/handoff"
)

const (
	getRounds = 9
	// getRequests is the number of requests of a round.
	getRequests = 2000
	// getClients is the number of clients that send them, each on one connection.
	getClients = 4
	// getTarget is the target of P2.
	getTarget = 1.5
)

// measureGets measures P2: the CPU time of a process for reading an agent, compared with functions-framework and a
// handler that reads one document. The clients are in this process, so only the server's time counts.
func measureGets(ctx context.Context, l *environment, d *deployment) (Report, error) {
	agents, err := d.createAgents(ctx, 1)
	if err != nil {
		return Report{}, err
	}
	signIn, session, err := d.signIn(ctx, agents[0].OrganizationID)
	if err != nil {
		return Report{}, err
	}
	path := "/api/v1/agents/" + agents[0].ID
	if l.profile != "" {
		if err := d.profileGets(ctx, l.profile, path); err != nil {
			return Report{}, err
		}
	}
	s, err := l.starter(ctx, d, "emulators/bench/leastread", "functions/cmd/api")
	if err != nil {
		return Report{}, err
	}
	limit, err := s.serve(ctx, coldStart{
		binary: "leastread", target: "Hello", method: http.MethodGet, path: "/", want: http.StatusOK,
		env: []string{"DOCUMENT=agents/" + agents[0].ID},
	})
	if err != nil {
		return Report{}, err
	}
	api, err := s.serve(ctx, coldStart{
		binary: "api", target: "GetAgent", method: http.MethodGet, path: path, want: http.StatusOK,
		env: append(signIn, "RATE_LIMIT_FACTOR=100000"),
	})
	if err != nil {
		return Report{}, err
	}
	return compareGets(ctx, min(getRequests, 10*l.provisions), limit, api, []getCaller{
		{what: "GET of an agent, API key", token: d.key, does: "one Get of Firestore"},
		{
			what: "GET of an agent, an admin's session", token: session, limit: "signed",
			does: "one Get and one ES256 signature",
		},
	})
}

// signIn starts an issuer, and returns the environment of programs that trust it and make links for its sessions, and
// the session of an admin.
func (d *deployment) signIn(ctx context.Context, organizationID string) (env []string, session string, err error) {
	i, err := issuer.Start(ctx, issuer.Options{})
	if err != nil {
		return nil, "", err
	}
	d.closers = append(d.closers, i.Close)
	key, _, err := handoff.Generate()
	if err != nil {
		return nil, "", err
	}
	session, err = i.Session(issuer.Session{Subject: "user", Organization: organizationID, Role: "admin"})
	return []string{"IDENTITY_ISSUER=" + i.URL(), "HANDOFF_SIGNING_KEY=" + key}, session, err
}

// getCaller is the caller of one row. limit is the path of the least program, and does is what it does.
type getCaller struct{ what, token, limit, does string }

// compareGets sends requests to both servers in turns.
func compareGets(ctx context.Context, requests int, limit, ours *served, callers []getCaller) (Report, error) {
	cpu := make([]rounds, len(callers))
	for round := range getRounds + 1 {
		for i, caller := range callers {
			least, err := limit.cpuPerRequest(ctx, requests, caller.limit, "")
			if err != nil {
				return Report{}, err
			}
			used, err := ours.cpuPerRequest(ctx, requests, "", caller.token)
			if err != nil {
				return Report{}, err
			}
			if round > 0 { // the first round opens connections
				cpu[i].add(used, least)
			}
		}
	}
	var report Report
	for i, caller := range callers {
		row, err := cpu[i].row()
		if err != nil {
			return Report{}, err
		}
		row.ID, row.What, row.Unit, row.Most = "P2", caller.what, "µs of CPU", getTarget
		row.Note = "limit: functions-framework and " + caller.does
		report.Rows = append(report.Rows, row)
	}
	return report, nil
}

// profileGets writes a CPU profile of reading an agent in this process, without a network between client and server.
func (d *deployment) profileGets(ctx context.Context, dir, path string) (err error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	file, err := os.Create(filepath.Join(dir, "get.pprof"))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	if err := pprof.StartCPUProfile(file); err != nil {
		return err
	}
	defer pprof.StopCPUProfile()
	for range getRounds * getRequests {
		if _, err := d.call(ctx, request{key: d.key, method: http.MethodGet, path: path}, http.StatusOK); err != nil {
			return err
		}
	}
	return nil
}

// served is a program that serves one URL.
type served struct {
	*process.Process
	url    string
	client *http.Client
}

// serve starts a program and waits for its first answer. The deployment ends it.
func (s starter) serve(ctx context.Context, p coldStart) (*served, error) {
	started, url, err := s.launch(ctx, p)
	if err != nil {
		return nil, err
	}
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: getClients}}
	s.closers = append(s.closers, func() error {
		client.CloseIdleConnections()
		return started.Close()
	})
	return &served{Process: started, url: url, client: client}, nil
}

// cpuPerRequest sends requests and returns the program's CPU time of one, in microseconds.
func (s *served) cpuPerRequest(ctx context.Context, requests int, path, token string) (float64, error) {
	used, err := during(s.Pid(), func() error {
		return sendAll(getClients, requests, func() error { return s.get(ctx, path, token) })
	})
	sent := requests / getClients * getClients
	return float64(used.Microseconds()) / float64(sent), err
}

// get sends one request and reads its answer. path continues the URL.
func (s *served) get(ctx context.Context, path, token string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.url+path, http.NoBody)
	if err != nil {
		return err
	}
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	res, err := s.client.Do(req)
	if err != nil {
		return err
	}
	defer func() { _ = res.Body.Close() }()
	if _, err := io.Copy(io.Discard, res.Body); err != nil || res.StatusCode != http.StatusOK {
		return errors.Join(fmt.Errorf("a request got %d", res.StatusCode), err)
	}
	return nil
}
