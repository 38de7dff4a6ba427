//go:build tools

// The store of the control plane, at the version and hashes that go.mod and go.sum pin.
package tools

import _ "go.etcd.io/etcd/server/v3"
