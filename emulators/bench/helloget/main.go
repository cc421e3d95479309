// Command helloget is the least program that answers a request from Firestore: functions-framework and one handler that
// reads one document. At /signed it also makes one signature. At /wait it waits for the client to give up, and at
// /stream it sends a heartbeat from time to time until then. The CPU time of a GET, and what a wait and a stream cost,
// are compared with it.
package main

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"io"
	"log"
	"net/http"
	"os"
	"time"

	"cloud.google.com/go/firestore"
	"github.com/GoogleCloudPlatform/functions-framework-go/funcframework"
	"github.com/GoogleCloudPlatform/functions-framework-go/functions"
)

func main() {
	client, err := firestore.NewClient(context.Background(), os.Getenv("GOOGLE_CLOUD_PROJECT"))
	if err != nil {
		log.Fatal(err)
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		log.Fatal(err)
	}
	document := client.Doc(os.Getenv("DOCUMENT"))
	functions.HTTP("Hello", func(w http.ResponseWriter, req *http.Request) {
		if req.URL.Path == "/stream" {
			stream(w, req)
			return
		}
		if _, err := document.Get(req.Context()); err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		if req.URL.Path == "/wait" {
			<-req.Context().Done()
			return
		}
		if req.URL.Path == "/signed" {
			sum := sha256.Sum256([]byte(document.Path))
			if _, err := ecdsa.SignASN1(rand.Reader, key, sum[:]); err != nil {
				http.Error(w, err.Error(), http.StatusInternalServerError)
				return
			}
		}
		_, _ = io.WriteString(w, "Hello, World!")
	})
	if err := funcframework.StartHostPort("127.0.0.1", os.Getenv("PORT")); err != nil {
		log.Fatal(err)
	}
}

// stream sends a heartbeat every 15 seconds.
func stream(w http.ResponseWriter, req *http.Request) {
	w.Header().Set("Content-Type", "text/event-stream")
	tick := time.NewTicker(15 * time.Second)
	defer tick.Stop()
	answer := http.NewResponseController(w)
	for {
		if _, err := io.WriteString(w, ": heartbeat\n\n"); err != nil || answer.Flush() != nil {
			return
		}
		select {
		case <-tick.C:
		case <-req.Context().Done():
			return
		}
	}
}
