package main

import (
	_ "github.com/florianl/go-nfqueue/v2"
	_ "github.com/google/go-containerregistry/pkg/registry"
	_ "github.com/google/go-containerregistry/pkg/v1/layout"
	_ "github.com/google/go-containerregistry/pkg/v1/tarball"
	_ "github.com/google/nftables"
	_ "github.com/vishvananda/netlink"
	_ "k8s.io/client-go/kubernetes"
	_ "sigs.k8s.io/kube-network-policies/pkg/networkpolicy"
	_ "sigs.k8s.io/kube-network-policies/pkg/podinfo"
)
