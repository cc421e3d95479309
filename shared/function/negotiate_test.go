package function_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"

	"agents.example/controlplane/shared/function"
)

// spoken is an output that can be had as text, too.
type spoken struct {
	Word string `json:"word"`
}

// Formats implements function.Negotiable.
func (s spoken) Formats() []function.Format {
	return []function.Format{
		{ContentType: "application/x-speech; version=2", Encode: func() []byte { return []byte("aloud: " + s.Word) }},
		{ContentType: "text/plain; charset=utf-8", Encode: func() []byte { return []byte(s.Word) }},
	}
}

// TestNegotiation gives a client what it prefers, and JSON where it has no preference for anything else.
func TestNegotiation(t *testing.T) {
	t.Parallel()
	const json, speech, text = "application/json", "application/x-speech; version=2", "text/plain; charset=utf-8"
	bodies := map[string]string{json: "{\"word\":\"hello\"}\n", speech: "aloud: hello", text: "hello"}
	h := served(function.Route{Method: http.MethodGet,
		Handle: function.Handle(func(context.Context, function.Empty) (spoken, error) {
			return spoken{"hello"}, nil
		})})
	for accept, want := range map[string]string{
		"":                                    json,
		"*/*":                                 json,
		"application/json":                    json,
		"application/json, text/plain, */*":   json,
		"text/html, */*;q=0.8":                json,
		"image/png":                           json,
		"not a media type":                    json,
		"text/plain;q=0":                      json,
		"text/plain;q=2":                      json,
		"text/plain":                          text,
		"TEXT/Plain; charset=us-ascii":        text,
		"text/*":                              text,
		"text/plain;q=0.5, application/*;q=0": text,
		"application/x-speech":                speech,
		"application/x-speech;version=1;q=0.6,text/plain;version=0.0.4;q=0.3,*/*;q=0.1": speech,
		"application/x-speech;q=0.2, text/plain;q=0.3":                                  text,
		"text/plain, application/x-speech":                                              speech,
	} {
		req := httptest.NewRequest(http.MethodGet, "/test", nil)
		if accept != "" {
			req.Header.Set("Accept", accept)
		}
		w := httptest.NewRecorder()
		h.ServeHTTP(w, req)
		if got := w.Header().Get("Content-Type"); w.Code != 200 || got != want || w.Body.String() != bodies[want] ||
			w.Header().Get("Vary") != "Accept" {
			t.Errorf("%q: %d %s %q, want %s", accept, w.Code, got, w.Body, want)
		}
	}
}
