//go:build tools

// What plays the kubelets, at the version and hashes that go.mod and go.sum pin.
package tools

import _ "sigs.k8s.io/kwok/cmd/kwok"
