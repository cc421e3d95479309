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
		c := newCalls(time.Now, newDoor(time.Now, 0), makeCall)
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

func TestCalls_CountAsUseOfTheAgent(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := newDoor(time.Now, time.Minute)
		makeCall := func(context.Context, string, dataplane.CallOrder) dataplane.CallResult {
			time.Sleep(5 * time.Minute) //nolint:forbidigo // in the bubble's time
			return dataplane.CallResult{Outcome: dataplane.CallAnswered, Status: 200}
		}
		c := newCalls(time.Now, d, makeCall)
		defer c.close()
		for range 2 {
			if err := c.order("c1", dataplane.CallOrder{}); err != nil {
				t.Error(err)
			}
		}
		time.Sleep(2 * time.Minute) //nolint:forbidigo // in the bubble's time
		if _, ok := d.close(); ok {
			t.Error("the agent falls asleep while a call runs")
		}
		time.Sleep(3 * time.Minute) //nolint:forbidigo // in the bubble's time
		if _, ok := d.close(); ok {
			t.Error("the agent falls asleep right after a call")
		}
		time.Sleep(time.Minute) //nolint:forbidigo // in the bubble's time
		if _, ok := d.close(); !ok {
			t.Error("the agent does not fall asleep after its call")
		}
		if err := c.order("c2", dataplane.CallOrder{}); err == nil {
			t.Error("an agent that falls asleep takes an order")
		}
	})
}
