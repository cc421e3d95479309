package main

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strconv"
	"testing"
	"time"

	"github.com/sethvargo/go-envconfig"

	"agents.example/controlplane/functions/cmd/internal/environment"
	"agents.example/controlplane/shared/dataplane"
	"agents.example/controlplane/shared/dataplane/front"
)

func TestOptions_FollowTheVariables(t *testing.T) {
	t.Parallel()
	c, err := environment.Read[environment.Front](t.Context(), envconfig.MapLookuper(map[string]string{
		"AGENT_PORT": "4000", "AGENT_API_PORT": "4001", "AGENT_HEALTH_PATH": "/healthz", "AGENT_AUTH": "image",
		"AGENT_PUBLIC_PATHS": "/a,/b/", "AGENT_HOSTNAME": "a.example.com", "JWKS_URL": "https://api.example.com/keys",
		"DASHBOARD_USERNAME": "admin", "DASHBOARD_PASSWORD": "canary-1", "API_SERVER_KEY": "canary-2",
		"AGENT_ID": "the-agent", "AGENT_SLEEP_AFTER": "1800", "AGENT_BUSY_PATH": "/busy", "DATA_DIR": "/data",
	}))
	if err != nil {
		t.Fatal(err)
	}
	want := front.Options{
		Hostname: "a.example.com", Port: 4000, APIPort: 4001, HealthPath: "/healthz", ForwardCredentials: true,
		PublicPaths: []string{"/a", "/b/"}, KeysURL: "https://api.example.com/keys",
		Credentials: front.Credentials{Username: "admin", Password: "canary-1", APIKey: "canary-2"},
		SleepAfter:  30 * time.Minute, AgentID: "the-agent", BusyPath: "/busy", DataDir: "/data",
	}
	if got := options(c); !reflect.DeepEqual(got, want) {
		t.Error("the options are not those of the variables") // they have credentials
	}
}

// TestRun_LetsAnIdleAgentSleep reads the variables that the pod template sets.
func TestRun_LetsAnIdleAgentSleep(t *testing.T) {
	t.Parallel()
	const host = "127.61.9.1" // the port is fixed
	asked := make(chan struct{}, 16)
	container := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if req.URL.Path == "/busy" {
			asked <- struct{}{}
		}
		_, _ = w.Write([]byte(`{"busy": false}`))
	}))
	defer container.Close()
	doors := make(chan string, 16)
	plane := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		door := req.Header.Get(dataplane.HeaderDoor)
		if req.URL.Path != "/api/v1/agents/the-agent/sleep" || req.Header.Get("Authorization") != "Bearer canary-2" {
			door = ""
		}
		doors <- door
	}))
	defer plane.Close()
	ctx, end := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		ended <- run(ctx, envconfig.MapLookuper(map[string]string{
			"LISTEN_HOST": host, "AGENT_PORT": strconv.Itoa(container.Listener.Addr().(*net.TCPAddr).Port),
			"DASHBOARD_USERNAME": "admin", "DASHBOARD_PASSWORD": "canary-1", "API_SERVER_KEY": "canary-2",
			"JWKS_URL": plane.URL + dataplane.PathKeys, "AGENT_ID": "the-agent", "AGENT_SLEEP_AFTER": "1",
			"AGENT_BUSY_PATH": "/busy", "DATA_DIR": t.TempDir(),
		}))
	}()
	defer func() {
		end()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}()
	patience := time.After(2 * time.Minute)
	var door string
	select {
	case door = <-doors:
	case err := <-ended:
		t.Fatal(err)
	case <-patience:
		t.Fatal("no door was reported")
	}
	select {
	case <-asked:
	default:
		t.Error("the container was not asked whether it is busy")
	}
	req, _ := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+host+":8080/v1/models", nil)
	req.Header.Set("Authorization", "Bearer canary-2")
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	_ = res.Body.Close()
	if got := res.Header.Get(dataplane.HeaderDoor); door == "" || got != door {
		t.Errorf("a request got %d and the door %q, want that which was reported: %q", res.StatusCode, got, door)
	}
}
