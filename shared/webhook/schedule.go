package webhook

import "time"

// delays are the waits between the attempts of a delivery: 8 attempts over 33 hours.
func delays() []time.Duration {
	return []time.Duration{
		5 * time.Second, 5 * time.Minute, 30 * time.Minute, 2 * time.Hour, 5 * time.Hour, 10 * time.Hour,
		15*time.Hour + 25*time.Minute,
	}
}

// jitter is the largest part of a delay that is added or subtracted, so that deliveries that failed together are not
// repeated together.
const jitter = 0.1

// maxRetryAfter bounds how long a receiver may put off the next attempt.
const maxRetryAfter = time.Hour

// nextAttempt returns when to try a delivery again after a number of failed attempts: not before the receiver asked for
// it. It is false if the delivery is given up. random is from 0 up to 1.
func nextAttempt(attempts int, now time.Time, retryAfter time.Duration, random float64) (time.Time, bool) {
	waits := delays()
	if attempts > len(waits) {
		return time.Time{}, false
	}
	wait := waits[attempts-1]
	wait += time.Duration((2*random - 1) * jitter * float64(wait))
	return now.Add(max(wait, min(retryAfter, maxRetryAfter))), true
}
