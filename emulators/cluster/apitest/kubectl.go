//go:build unix

package apitest

import (
	"bufio"
	"context"
	"os/exec"
	"path/filepath"
	"strings"
)

// kubectlCases run kubectl, if it is installed. The server may be newer than kubectl.
func kubectlCases() map[string]func(*space) {
	return map[string]func(*space){
		"get":          testKubectlGet,
		"get -w":       testKubectlWatch,
		"describe":     testKubectlDescribe,
		"apply":        testKubectlApply,
		"server side":  testKubectlServerSide,
		"auth can-i":   testKubectlRights,
		"wait, delete": testKubectlWait,
		"explain":      testKubectlExplain,
	}
}

// kubectl returns a command in the namespace of the case, without the settings and caches of the user.
func (s *space) kubectl(ctx context.Context, input string, args ...string) *exec.Cmd {
	s.Helper()
	program, err := exec.LookPath("kubectl")
	if err != nil || s.server.Kubeconfig == "" {
		s.Skip("kubectl is not installed, or there is no kubeconfig")
	}
	args = append([]string{
		"--kubeconfig=" + s.server.Kubeconfig, "--namespace=" + s.namespace,
		"--cache-dir=" + filepath.Join(s.TempDir(), "cache"),
	}, args...)
	command := exec.CommandContext(ctx, program, args...)
	command.Stdin = strings.NewReader(input)
	return command
}

// run runs kubectl with what it reads, and checks that its output has parts.
func (s *space) run(input string, args []string, parts ...string) {
	s.Helper()
	ctx, cancel := context.WithTimeout(s.Context(), patience)
	defer cancel()
	output, err := s.kubectl(ctx, input, args...).CombinedOutput()
	if err != nil {
		s.Fatalf("kubectl %q: %v: %s", args, err, output)
	}
	for _, part := range parts {
		if !strings.Contains(string(output), part) {
			s.Errorf("kubectl %q prints %s, want %q in it", args, output, part)
		}
	}
}

func testKubectlGet(s *space) {
	s.create("pods", runningPod("a"))
	pod := s.await("pods/a", ready())
	s.run("", []string{"get", "pods"}, "NAME   READY   STATUS    RESTARTS   AGE\na      1/1     Running   0")
	s.run("", []string{"get", "po", "-o", "wide"}, "NODE", pod.text("/spec/nodeName"), pod.text("/status/podIP"))
	s.run("", []string{"get", "pod/a", "-o", "json"}, `"kind": "Pod"`, `"phase": "Running"`)
	s.run("", []string{"get", "pods", "-l", "app=a", "-o", "name"}, "pod/a\n")
	s.run("", []string{"get", "all"}, "pod/a")
	s.run("", []string{"get", "pods", "-o", "jsonpath={.items[*].metadata.name}"}, "a")
}

func testKubectlWatch(s *space) {
	s.create("configmaps", "metadata: {name: a}")
	ctx, cancel := context.WithTimeout(s.Context(), patience)
	defer cancel()
	command := s.kubectl(ctx, "", "get", "configmaps", "-w", "--no-headers", "--field-selector=metadata.name=a")
	output, err := command.StdoutPipe()
	if err != nil {
		s.Fatal(err)
	}
	if err := command.Start(); err != nil {
		s.Fatal(err)
	}
	lines := bufio.NewScanner(output)
	if !lines.Scan() || !strings.HasPrefix(lines.Text(), "a ") {
		s.Errorf("first line %q", lines.Text())
	}
	s.must(call{verb: "MERGE", path: "configmaps/a", body: "data: {a: b}"})
	if !lines.Scan() || !strings.HasPrefix(lines.Text(), "a ") || !strings.Contains(lines.Text(), " 1 ") {
		s.Errorf("line of the change %q", lines.Text())
	}
	cancel()
	_ = command.Wait() // it was killed
}

func testKubectlDescribe(s *space) {
	s.create("pods", runningPod("a"))
	s.await("pods/a", ready())
	s.run("", []string{"describe", "pod", "a"}, "Status:           Running", "Image:          "+image, "Ready      "+
		"       True", "Events:")
	s.run("", []string{"describe", "namespace", s.namespace}, "Status:       Active")
}

const kubectlObject = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata: {a: "

func testKubectlApply(s *space) {
	s.run(kubectlObject+"b}", []string{"apply", "-f", "-"}, "configmap/a created")
	s.run(kubectlObject+"b}", []string{"apply", "-f", "-"}, "configmap/a unchanged")
	s.run(kubectlObject+"c}", []string{"apply", "-f", "-"}, "configmap/a configured")
	s.want(s.get("configmaps/a"), map[string]any{"/data/a": "c"})
	output, err := s.kubectl(s.Context(), kubectlObject+"b}\nspec: {}", "apply", "-f", "-").CombinedOutput()
	if err == nil || !strings.Contains(string(output), `unknown field "spec"`) {
		s.Errorf("kubectl applies an unknown field: %v: %s", err, output)
	}
	s.run(kubectlObject+"b}", []string{"replace", "-f", "-"}, "configmap/a replaced")
}

func testKubectlServerSide(s *space) {
	args := []string{"apply", "--server-side", "-f", "-"}
	s.run(kubectlObject+"b}", args, "configmap/a serverside-applied")
	s.apply("other&force=true", "configmaps/a", config("{a: c}"))
	output, err := s.kubectl(s.Context(), kubectlObject+"b}", args...).CombinedOutput()
	if err == nil || !strings.Contains(string(output), `conflict with "other": .data.a`) {
		s.Errorf("kubectl with a conflict: %v: %s", err, output)
	}
	s.run(kubectlObject+"b}", append(args, "--force-conflicts"), "configmap/a serverside-applied")
}

func testKubectlRights(s *space) {
	s.run("", []string{"auth", "can-i", "create", "pods"}, "yes")
	output, err := s.kubectl(s.Context(), "", "auth", "can-i", "get", "secrets", "--as=none").CombinedOutput()
	if err == nil || strings.TrimSpace(string(output)) != "no" {
		s.Errorf("rights of an unknown user: %v: %s", err, output)
	}
}

func testKubectlWait(s *space) {
	s.create("pods", runningPod("a"))
	s.run("", []string{"wait", "--for=condition=Ready", "pod/a", "--timeout=60s"}, "pod/a condition met")
	s.run("", []string{"delete", "pod", "a"}, `pod "a" deleted`)
	s.awaitGone("pods/a")
	s.create("apps/statefulsets", "metadata: {name: a}\nspec: {replicas: 0, "+template+"}")
	s.run("", []string{"scale", "statefulset", "a", "--replicas=0"}, "statefulset.apps/a scaled")
	s.run("", []string{"create", "configmap", "b", "--from-literal=a=b"}, "configmap/b created")
	s.run("", []string{"label", "configmap", "b", "a=b"}, "configmap/b labeled")
	s.run("", []string{"api-resources", "--api-group=apps"}, "statefulsets", "sts")
}

func testKubectlExplain(s *space) {
	s.run("", []string{"explain", "pod.spec.containers.image"}, "FIELD: image <string>")
}
