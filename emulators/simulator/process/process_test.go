package process

import (
	"bufio"
	"bytes"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"go.uber.org/goleak"
)

// parentVariable makes the test binary start a process, print its id, and wait until it is killed.
const parentVariable = "PROCESS_TEST_PARENT"

func TestMain(m *testing.M) {
	if os.Getenv(parentVariable) != "" {
		p, err := Start(Command{Path: "/bin/sleep", Args: []string{"600"}, Stdout: discard{}, Stderr: discard{}})
		if err != nil {
			os.Exit(1)
		}
		_, _ = os.Stdout.WriteString(strconv.Itoa(p.cmd.Process.Pid) + "\n")
		<-p.Done()
	}
	goleak.VerifyTestMain(m)
}

type discard struct{ io.Closer }

// Write drops the output.
func (discard) Write(p []byte) (int, error) { return len(p), nil }

// Close does nothing.
func (discard) Close() error { return nil }

// output keeps what a process writes; closed says that no more follows.
type output struct {
	bytes.Buffer

	closed bool
}

// Close ends the output.
func (o *output) Close() error {
	o.closed = true
	return nil
}

func run(t *testing.T, script string) (p *Process, stdout, stderr *output) {
	t.Helper()
	stdout, stderr = &output{}, &output{}
	p, err := Start(Command{Path: "/bin/sh", Args: []string{"-c", script}, Stdout: stdout, Stderr: stderr})
	if err != nil {
		t.Fatal(err)
	}
	return p, stdout, stderr
}

func TestStart_SeparatesOutputsAndReportsTheExit(t *testing.T) {
	t.Parallel()
	p, stdout, stderr := run(t, "echo out; echo err >&2; exit 3")
	<-p.Done()
	if p.ExitCode() != 3 || stdout.String() != "out\n" || stderr.String() != "err\n" {
		t.Errorf("exit code %d, output %q, errors %q", p.ExitCode(), stdout, stderr)
	}
	if !stdout.closed || !stderr.closed {
		t.Error("the outputs are not closed")
	}
}

func TestSignal_EndsTheWholeGroup(t *testing.T) {
	t.Parallel()
	p, _, _ := run(t, "sleep 600 & wait") // the shell's child keeps the pipes open as long as it lives
	p.Signal(syscall.SIGKILL)
	<-p.Done()
	if want := signalBase + int(syscall.SIGKILL); p.ExitCode() != want {
		t.Errorf("exit code %d, want %d", p.ExitCode(), want)
	}
}

func TestProcess_EndsItsDescendants(t *testing.T) {
	t.Parallel()
	p, stdout, _ := run(t, "sleep 600 & echo $!")
	<-p.Done()
	pid, err := strconv.Atoi(strings.TrimSpace(stdout.String()))
	if err != nil {
		t.Fatal(err)
	}
	awaitEnd(pid)
}

func TestProcess_DiesWithItsParent(t *testing.T) {
	t.Parallel()
	parent := exec.CommandContext(t.Context(), os.Args[0])
	parent.Env = append(os.Environ(), parentVariable+"=1")
	printed, err := parent.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := parent.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(printed).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(line))
	if err != nil {
		t.Fatal(err)
	}
	if err := parent.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = parent.Wait() // reports the kill
	awaitEnd(pid)
}

// awaitEnd waits until a process has ended, even if no parent has collected its exit. The test's time limit bounds it.
func awaitEnd(pid int) {
	for {
		stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
		if err != nil || bytes.Contains(stat, []byte(") Z ")) {
			return
		}
	}
}
