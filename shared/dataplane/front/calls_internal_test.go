package front

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"agents.example/controlplane/shared/dataplane"
)

func TestCalls_EndAfterAQuarterOfAnHourAndAreRememberedForAnHour(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		made := 0
		makeCall := func(ctx context.Context, _ string, _ dataplane.CallOrder) dataplane.CallResult {
			made++
			<-ctx.Done()
			return dataplane.CallResult{Outcome: dataplane.CallFailed}
		}
		c := newCalls(time.Now, always{}, makeCall)
		order := func() {
			if err := c.order("c1", dataplane.CallOrder{}); err != nil {
				t.Error(err)
			}
		}
		outcome := func() string { return c.report([]string{"c1"}).Calls["c1"].Outcome }
		order()
		time.Sleep(dataplane.CallTime - time.Second) //nolint:forbidigo // in the bubble's time
		if got := outcome(); got != dataplane.CallRunning {
			t.Errorf("before its time is over, the call is %s", got)
		}
		time.Sleep(2 * time.Second) //nolint:forbidigo // in the bubble's time
		if got := outcome(); got != dataplane.CallTimedOut {
			t.Errorf("after its time, the call is %s", got)
		}
		time.Sleep(dataplane.CallMemory - time.Minute) //nolint:forbidigo // in the bubble's time
		if order(); made != 1 {
			t.Errorf("the call was made %d times within an hour, want 1", made)
		}
		time.Sleep(2 * time.Minute) //nolint:forbidigo // in the bubble's time
		order()
		synctest.Wait()
		if made != 2 {
			t.Errorf("the front remembers a call for more than an hour")
		}
		c.close()
		if err := c.order("c2", dataplane.CallOrder{}); err == nil {
			t.Error("a closed front takes an order")
		}
	})
}

// counted is the use of an agent, which ends when it is closed.
type counted struct {
	closed bool
	n      int
}

func (c *counted) enter() bool {
	if c.closed {
		return false
	}
	c.n++
	return true
}

func (c *counted) leave() { c.n-- }

func TestCalls_CountAsUseOfTheAgent(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		use := &counted{}
		c := newCalls(time.Now, use, func(context.Context, string, dataplane.CallOrder) dataplane.CallResult {
			time.Sleep(time.Minute) //nolint:forbidigo // in the bubble's time
			return dataplane.CallResult{Outcome: dataplane.CallAnswered, Status: 200}
		})
		defer c.close()
		for range 2 {
			if err := c.order("c1", dataplane.CallOrder{}); err != nil {
				t.Error(err)
			}
		}
		if use.n != 1 {
			t.Errorf("while a call runs, the agent has %d uses, want 1", use.n)
		}
		time.Sleep(2 * time.Minute) //nolint:forbidigo // in the bubble's time
		use.closed = true
		if err := c.order("c2", dataplane.CallOrder{}); err == nil || use.n != 0 {
			t.Errorf("after the call, an agent that falls asleep has %d uses, and takes an order: %v", use.n, err)
		}
	})
}
