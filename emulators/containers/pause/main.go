// Command pause does nothing until it is told to stop. It holds the namespaces of a pod, as the image of that name does
// on every Kubernetes node.
package main

import (
	"os"
	"os/signal"
	"syscall"
)

func main() {
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, syscall.SIGINT, syscall.SIGTERM)
	<-stop
}
