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
		c := newCalls(time.Now, func(ctx context.Context, _ string, _ dataplane.CallOrder) dataplane.CallResult {
			made++
			<-ctx.Done()
			return dataplane.CallResult{Outcome: dataplane.CallFailed}
		})
		order := func() {
			if err := c.order("c1", dataplane.CallOrder{}); err != nil {
				t.Error(err)
			}
		}
		outcome := func() string { return c.report([]string{"c1"}).Calls["c1"].Outcome }
		order()
		time.Sleep(dataplane.CallTime - time.Second)
		if got := outcome(); got != dataplane.CallRunning {
			t.Errorf("before its time is over, the call is %s", got)
		}
		time.Sleep(2 * time.Second)
		if got := outcome(); got != dataplane.CallTimedOut {
			t.Errorf("after its time, the call is %s", got)
		}
		time.Sleep(dataplane.CallMemory - time.Minute)
		if order(); made != 1 {
			t.Errorf("the call was made %d times within an hour, want 1", made)
		}
		time.Sleep(2 * time.Minute)
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
