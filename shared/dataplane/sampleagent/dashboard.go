package sampleagent

import (
	"bytes"
	"embed"
	"errors"
	"html/template"
	"log/slog"
	"net/http"
	"os"
	"runtime"
	"strconv"
	"time"
)

//go:embed page
var pageFiles embed.FS

// maxFormBytes bounds the forms of the dashboard.
const maxFormBytes = 64 << 10

// contentPolicy lets the page load its own style only.
const contentPolicy = "default-src 'none'; style-src 'self'; img-src 'self'; form-action 'self'; base-uri 'none'; " +
	"frame-ancestors 'none'"

// dashboard serves the pages for people. They work without JavaScript.
type dashboard struct {
	agent *Agent
	page  *template.Template
}

func newDashboard(a *Agent) (*dashboard, error) {
	page, err := template.ParseFS(pageFiles, "page/*.html")
	if err != nil {
		return nil, err
	}
	return &dashboard{a, page}, nil
}

func (d *dashboard) register(mux *http.ServeMux) {
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, req *http.Request) { d.show(w, req, http.StatusOK, view{}) })
	mux.HandleFunc("GET /style.css", d.serveFile("page/style.css", "text/css; charset=utf-8"))
	mux.HandleFunc("GET /icon.svg", d.serveFile("page/icon.svg", "image/svg+xml"))
	mux.HandleFunc("POST /notes", d.addNote)
	mux.HandleFunc("POST /notes/{id}/delete", d.removeNote)
	mux.HandleFunc("POST /chat", d.chat)
}

// serveFile serves a file of the page.
func (d *dashboard) serveFile(name, kind string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		b, err := pageFiles.ReadFile(name)
		if err != nil {
			http.Error(w, "not found", http.StatusNotFound)
			return
		}
		w.Header().Set("Content-Type", kind)
		w.Header().Set("Cache-Control", "private, max-age=300")
		w.Header().Set("X-Content-Type-Options", "nosniff")
		_, _ = w.Write(b) // fails if the client left
	}
}

// view is what the page shows.
type view struct {
	User, Host, Uptime string
	Started            time.Time
	Memory             string
	Model              string // "" for an echo
	Variables          []string
	Notes              []note
	// Problem is an error that the user reads.
	Problem string
	// Draft is the note that could not be stored.
	Draft string
	// Question and Answer are the chat's.
	Question, Answer string
}

// show renders the page.
func (d *dashboard) show(w http.ResponseWriter, req *http.Request, status int, v view) {
	o := d.agent.options
	v.User = req.Header.Get("X-Forwarded-User")
	v.Host, _ = os.Hostname() // "" is not shown
	v.Started, v.Uptime = d.agent.started.UTC(), describe(o.Now().Sub(d.agent.started))
	v.Memory, v.Variables = memoryInUse(), o.Variables
	if !d.agent.echoes() {
		v.Model = o.Model
	}
	notes, err := d.agent.notes.list()
	if err != nil {
		slog.Error("notes could not be read", "error", err.Error())
		v.Problem = "The notes cannot be read."
	}
	v.Notes = notes
	var b bytes.Buffer
	if err := d.page.ExecuteTemplate(&b, "index.html", v); err != nil {
		slog.Error("page could not be rendered", "error", err.Error())
		http.Error(w, "The page cannot be shown.", http.StatusInternalServerError)
		return
	}
	h := w.Header()
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Content-Security-Policy", contentPolicy)
	h.Set("Referrer-Policy", "same-origin")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_, _ = b.WriteTo(w) // fails if the client left
}

// readForm bounds and parses a form. It answers the request if it fails.
func readForm(w http.ResponseWriter, req *http.Request) bool {
	req.Body = http.MaxBytesReader(w, req.Body, maxFormBytes)
	err := req.ParseForm()
	if tooLarge := new(http.MaxBytesError); errors.As(err, &tooLarge) {
		http.Error(w, "The text is too long.", http.StatusRequestEntityTooLarge)
		return false
	}
	if err != nil {
		http.Error(w, "The form cannot be read.", http.StatusBadRequest)
		return false
	}
	return true
}

func (d *dashboard) addNote(w http.ResponseWriter, req *http.Request) {
	if !readForm(w, req) {
		return
	}
	text := req.PostForm.Get("text")
	d.finish(w, req, d.agent.notes.add(text, req.Header.Get("X-Forwarded-User")), text)
}

func (d *dashboard) removeNote(w http.ResponseWriter, req *http.Request) {
	d.finish(w, req, d.agent.notes.remove(req.PathValue("id")), "")
}

// finish shows the page after a change: a reload repeats nothing.
func (d *dashboard) finish(w http.ResponseWriter, req *http.Request, err error, draft string) {
	wrong := userError("")
	switch {
	case err == nil:
		http.Redirect(w, req, "/#notes", http.StatusSeeOther)
	case errors.As(err, &wrong):
		d.show(w, req, http.StatusUnprocessableEntity, view{Problem: wrong.Error(), Draft: draft})
	default:
		slog.Error("note could not be written", "error", err.Error())
		d.show(w, req, http.StatusInternalServerError,
			view{Problem: "The note cannot be stored. Is the volume full, or not writable?", Draft: draft})
	}
}

func (d *dashboard) chat(w http.ResponseWriter, req *http.Request) {
	if !readForm(w, req) {
		return
	}
	v, status := view{Question: req.PostForm.Get("message")}, http.StatusOK
	if v.Question == "" {
		v.Problem, status = "Write a message first.", http.StatusUnprocessableEntity
	} else {
		var err error
		if v.Answer, err = d.agent.answer(req.Context(), v.Question); err != nil {
			v.Problem, status = err.Error(), http.StatusBadGateway
		}
	}
	d.show(w, req, status, v)
}

// describe formats a duration for people.
func describe(d time.Duration) string {
	switch d = d.Truncate(time.Second); {
	case d < time.Minute:
		return plural(int(d/time.Second), "second")
	case d < time.Hour:
		return plural(int(d/time.Minute), "minute")
	case d < 24*time.Hour:
		return plural(int(d/time.Hour), "hour") + " " + plural(int(d%time.Hour/time.Minute), "minute")
	default:
		return plural(int(d/(24*time.Hour)), "day") + " " + plural(int(d%(24*time.Hour)/time.Hour), "hour")
	}
}

func plural(n int, unit string) string {
	if n == 1 {
		return "1 " + unit
	}
	return strconv.Itoa(n) + " " + unit + "s"
}

// memoryInUse returns the memory that the process has from the system.
func memoryInUse() string {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return strconv.FormatFloat(float64(m.Sys-m.HeapReleased)/(1<<20), 'f', 1, 64) + " MiB"
}
