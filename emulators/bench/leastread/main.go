// Command leastread is the least program that serves a function which reads Firestore: functions-framework, Firestore's
// library and a handler for each kind of request that is compared with it. Cold starts, the CPU time of a GET, and what
// waits and streams cost are compared with these:
//
//	/          reads one document, which DOCUMENT names
//	/pair      reads two documents in one call, as a route of agents does
//	/signed    reads the document and makes one signature
//	/wait      reads the document and waits for the client to give up
//	/stream    sends a heartbeat every 15 seconds until the client gives up
package main

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"fmt"
	"io"
	"log"
	"net/http"
	"os"
	"sync"
	"time"

	"cloud.google.com/go/firestore"
	"github.com/GoogleCloudPlatform/functions-framework-go/funcframework"
	"github.com/GoogleCloudPlatform/functions-framework-go/functions"
	"google.golang.org/api/option"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
)

func main() {
	if err := serve(context.Background()); err != nil {
		log.Fatal(err)
	}
}

func serve(ctx context.Context) error {
	conn, err := grpc.NewClient("passthrough:///"+os.Getenv("FIRESTORE_EMULATOR_HOST"),
		grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return fmt.Errorf("connect to Firestore: %w", err)
	}
	db, err := firestore.NewClient(ctx, os.Getenv("GOOGLE_CLOUD_PROJECT"), option.WithGRPCConn(conn))
	if err != nil {
		return fmt.Errorf("open Firestore: %w", err)
	}
	document, agents := db.Doc(os.Getenv("DOCUMENT")), db.Collection("agents")
	pair := []*firestore.DocumentRef{agents.Doc("a"), agents.Doc("b")}
	functions.HTTP("Hello", func(w http.ResponseWriter, req *http.Request) {
		var err error
		switch req.URL.Path {
		case "/pair":
			_, err = db.GetAll(req.Context(), pair)
		case "/stream":
			stream(w, req)
			return
		default:
			_, err = document.Get(req.Context())
		}
		switch {
		case err != nil:
		case req.URL.Path == "/wait":
			<-req.Context().Done()
			return
		case req.URL.Path == "/signed":
			err = sign(document.Path)
		}
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		_, _ = io.WriteString(w, "Hello, World!")
	})
	return funcframework.StartHostPort("127.0.0.1", os.Getenv("PORT"))
}

// key is made at the first signature, so that no start pays for it.
var key = sync.OnceValues(func() (*ecdsa.PrivateKey, error) { return ecdsa.GenerateKey(elliptic.P256(), rand.Reader) })

func sign(text string) error {
	private, err := key()
	if err != nil {
		return err
	}
	sum := sha256.Sum256([]byte(text))
	_, err = ecdsa.SignASN1(rand.Reader, private, sum[:])
	return err
}

// stream sends heartbeats until the client gives up.
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
