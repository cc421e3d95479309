package function_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"

	"agents.example/controlplane/shared/function"
)

// greeting is an output with two formats in addition to JSON.
type greeting struct {
	Word string `json:"word"`
}

// Formats implements function.Negotiable.
func (g greeting) Formats() []function.Format {
	return []function.Format{
		{ContentType: "application/x-speech; version=2", Encode: func() []byte { return []byte("aloud: " + g.Word) }},
		{ContentType: "text/plain; charset=utf-8", Encode: func() []byte { return []byte(g.Word) }},
	}
}

func TestRoute_RendersTheFormatThatTheClientPrefers(t *testing.T) {
	t.Parallel()
	const json, speech, text = "application/json", "application/x-speech; version=2", "text/plain; charset=utf-8"
	wantBodies := map[string]string{json: "{\"word\":\"hello\"}\n", speech: "aloud: hello", text: "hello"}
	h := servePublic(http.MethodGet, function.Handle(func(context.Context, function.Empty) (greeting, error) {
		return greeting{"hello"}, nil
	}))
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
		t.Run(accept, func(t *testing.T) {
			t.Parallel()
			req := httptest.NewRequest(http.MethodGet, "/test", nil)
			if accept != "" {
				req.Header.Set("Accept", accept)
			}
			w := httptest.NewRecorder()
			h.ServeHTTP(w, req)
			if w.Code != 200 {
				t.Errorf("status = %d, want 200", w.Code)
			}
			checkHeader(t, w.Header(), "Content-Type", want)
			checkHeader(t, w.Header(), "Vary", "Accept")
			if got := w.Body.String(); got != wantBodies[want] {
				t.Errorf("body = %q, want %q", got, wantBodies[want])
			}
		})
	}
}
