// Command containers runs one real Kubernetes node in namespaces of a child process.
package main

func main() {}
