package kubeletserver

import (
	"fmt"
	"net/url"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// parseLogOptions reads the options of a log, which the API server has checked, from a query.
func parseLogOptions(query url.Values) (*corev1.PodLogOptions, error) {
	o := &corev1.PodLogOptions{}
	for name, set := range map[string]func(string) error{
		"follow":       func(text string) (err error) { o.Follow, err = strconv.ParseBool(text); return err },
		"previous":     func(text string) (err error) { o.Previous, err = strconv.ParseBool(text); return err },
		"timestamps":   func(text string) (err error) { o.Timestamps, err = strconv.ParseBool(text); return err },
		"sinceSeconds": func(text string) (err error) { o.SinceSeconds, err = parseInt(text); return err },
		"tailLines":    func(text string) (err error) { o.TailLines, err = parseInt(text); return err },
		"limitBytes":   func(text string) (err error) { o.LimitBytes, err = parseInt(text); return err },
		"stream":       func(text string) error { o.Stream = &text; return nil },
		"sinceTime": func(text string) error {
			since, err := time.Parse(time.RFC3339, text)
			o.SinceTime = &metav1.Time{Time: since}
			return err
		},
	} {
		if text := query.Get(name); text != "" {
			if err := set(text); err != nil {
				return nil, fmt.Errorf("parameter %s: %w", name, err)
			}
		}
	}
	return o, nil
}

func parseInt(text string) (*int64, error) {
	n, err := strconv.ParseInt(text, 10, 64)
	return &n, err
}

// since returns the time before which output is left out.
func since(o *corev1.PodLogOptions) time.Time {
	switch {
	case o.SinceSeconds != nil:
		return time.Now().Add(-time.Duration(*o.SinceSeconds) * time.Second)
	case o.SinceTime != nil:
		return o.SinceTime.Time
	}
	return time.Time{}
}
