package test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"pgsnowflake/test/cluster"
)

// The keeper connects as libpq's users expect: by a service file, to the host of several that answers, over TLS with a
// certificate that it checks, with a password from the password file.
func TestHowTheKeeperConnects(t *testing.T) {
	arbiterNode, conninfo := newArbiter(t)
	certificate, key := selfSigned(t)
	writeFile(t, arbiterNode, "pgdata/server.crt", certificate)
	writeFile(t, arbiterNode, "pgdata/server.key", key)
	run(t, arbiterNode, "sh", "-c", `printf 'hostssl all lessee all scram-sha-256\nhostnossl all lessee all reject\n' |
		cat - pgdata/pg_hba.conf >hba && cat hba >pgdata/pg_hba.conf`)
	arbiterNode.Set(t, map[string]string{"ssl": "on"})
	arbiterNode.Reload(t)
	admin := arbiterNode.Connect(t, "postgres")
	exec(t, admin, "SET password_encryption = 'scram-sha-256'")
	exec(t, admin, "CREATE ROLE lessee LOGIN PASSWORD 's3cret' IN ROLE snowflake_keeper")

	node := lessee(t, "lessee", "host=127.0.0.1 port=1", nil)
	folder := strings.TrimSpace(run(t, node, "pwd"))
	config, err := pgx.ParseConfig(conninfo)
	if err != nil {
		t.Fatal(err)
	}
	writeFile(t, node, "root.crt", certificate)
	writeFile(t, node, "passwords", fmt.Sprintf("127.0.0.1:1:%s:lessee:s3cret\n", config.Database)) // that of the first host counts
	writeFile(t, node, "services", fmt.Sprintf("[arbiter]\nhost=127.0.0.1,%s\nport=1,%d\ndbname=%s\nuser=lessee\n"+
		"sslmode=verify-ca\nsslrootcert=%[4]s/root.crt\npassfile=%[4]s/passwords\n", config.Host, config.Port, config.Database, folder))
	node.Set(t, map[string]string{"snowflake.lease_conninfo": "service=arbiter servicefile=" + folder + "/services"})
	node.Reload(t)
	c := node.Connect(t, newDatabase(t, node))
	makesIDs(t, c, 10*time.Second, "by a service file")
	if !one[bool](t, admin, "SELECT bool_and(ssl) FROM pg_stat_ssl JOIN pg_stat_activity USING (pid) WHERE application_name = 'snowflake_keeper'") {
		t.Error("the keeper's session is not encrypted")
	}

	other, _ := selfSigned(t)
	writeFile(t, node, "root.crt", other)
	exec(t, admin, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'snowflake_keeper'")
	refuses(t, c, 10*time.Second, "certificate signed by unknown authority")
}

// writeFile writes a file that only the server's user may read, in the folder of a node.
func writeFile(t *testing.T, node *cluster.Node, name, content string) {
	t.Helper()
	if out, err := node.ExecIn(background(t), content, "sh", "-c", `umask 077 && cat >"$0"`, name); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
}

// selfSigned makes a certificate that signs itself, and its key, as PEM.
func selfSigned(t *testing.T) (certificate, key string) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: "arbiter"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
	}
	signed, err := x509.CreateCertificate(rand.Reader, template, template, &private.PublicKey, private)
	if err != nil {
		t.Fatal(err)
	}
	encoded, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: signed})),
		string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: encoded}))
}
