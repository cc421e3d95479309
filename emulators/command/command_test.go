package command

import (
	"context"
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"
)

// stuck makes this test's process a program that does not end when it is interrupted.
const stuck = "TEST_STUCK_PROGRAM"

func TestMain(m *testing.M) {
	if os.Getenv(stuck) == "" {
		os.Exit(m.Run())
	}
	Main(func(context.Context, []string) error {
		_, _ = os.Stdout.WriteString("started")
		select {}
	})
}

// TestMain_EndsWithTheSecondSignal interrupts a program that is stuck until it has ended.
func TestMain_EndsWithTheSecondSignal(t *testing.T) {
	t.Parallel()
	program := exec.CommandContext(t.Context(), os.Args[0])
	program.Env = append(os.Environ(), stuck+"=yes")
	output, err := program.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := program.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := output.Read(make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- program.Wait() }()
	again, late := time.NewTicker(10*time.Millisecond), time.After(time.Minute)
	defer again.Stop()
	for {
		select {
		case <-again.C:
			_ = program.Process.Signal(syscall.SIGINT) // fails once the program has ended
		case err := <-ended:
			if program.ProcessState.Sys().(syscall.WaitStatus).Signal() != syscall.SIGINT {
				t.Errorf("the program ended with %v, want the signal", err)
			}
			return
		case <-late:
			t.Fatal("the program still runs after a minute of signals")
		}
	}
}
