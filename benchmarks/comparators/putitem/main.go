// Putitem puts items into a DynamoDB table as fast as a number of requests in flight allows, each sent when the one
// before it was answered, and prints what that cost as one line of JSON.
//
// Clients: `sdk` is aws-sdk-go-v2 with its default HTTP client (which keeps no more than ten idle connections: ask for
// no more in flight); `raw` signs by itself and speaks HTTP/1.1 on its own sockets, one per request in flight.
package main

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"flag"
	"log"
	"os"
	"runtime"
	"slices"
	"sync"
	"syscall"
	"time"
)

const (
	accessKey = "AKIDEXAMPLE"
	secretKey = "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY"
	region    = "us-east-1"
)

// putter puts one item and returns when it is acknowledged; each is used by one goroutine.
type putter func(key, value string) error

// report is what is printed. CPU is the whole process's, garbage collection and runtime threads included.
type report struct {
	Client   string  `json:"client"`
	Requests int     `json:"requests"`
	Seconds  float64 `json:"seconds"`
	CPUUs    float64 `json:"cpu_us_per_request"`
	P50Us    float64 `json:"p50_us"`
	P99Us    float64 `json:"p99_us"`
	Procs    int     `json:"gomaxprocs"`
}

func main() {
	client := flag.String("client", "sdk", "sdk or raw")
	endpoint := flag.String("endpoint", "", "host:port")
	authority := flag.String("authority", "", "PEM file of who has signed the server's certificate; empty: no TLS")
	table := flag.String("table", "stepbench-benchmark", "name of the table")
	inFlight := flag.Int("inflight", 1, "requests in flight")
	seconds := flag.Float64("seconds", 5, "how long is measured")
	warmUp := flag.Float64("warmup", 1, "seconds before that")
	procs := flag.Int("procs", 0, "GOMAXPROCS; 0: the runtime's choice")
	flag.Parse()
	runtime.GOMAXPROCS(*procs)

	trust, err := trustOf(*authority)
	if err != nil {
		log.Fatal(err)
	}
	newPutter := map[string]func(string, string, *tls.Config) (func() (putter, error), error){
		"sdk": sdkPutters, "raw": rawPutters,
	}[*client]
	if newPutter == nil {
		log.Fatalf("-client is sdk or raw, not %q", *client)
	}
	connect, err := newPutter(*endpoint, *table, trust)
	if err != nil {
		log.Fatal(err)
	}
	puts := make([]putter, *inFlight)
	for number := range puts {
		if puts[number], err = connect(); err != nil {
			log.Fatal(err)
		}
	}
	run(puts, *warmUp)
	runtime.GC()
	before, begin := cpuUs(), time.Now()
	took := run(puts, *seconds)
	elapsed, used := time.Since(begin).Seconds(), cpuUs()-before
	slices.Sort(took)
	quantile := func(q float64) float64 { return float64(took[int(q*float64(len(took)-1))]) / 1e3 }
	err = json.NewEncoder(os.Stdout).Encode(report{
		*client, len(took), elapsed, used / float64(len(took)), quantile(0.5), quantile(0.99), runtime.GOMAXPROCS(0),
	})
	if err != nil {
		log.Fatal(err)
	}
}

// run lets every putter go on for so long; it returns what each request took, in ns.
func run(puts []putter, seconds float64) []int64 {
	const expected = 1 << 20
	end := time.Now().Add(time.Duration(seconds * 1e9))
	took := make([][]int64, len(puts))
	var group sync.WaitGroup
	for number, put := range puts {
		group.Go(func() {
			own, next := make([]int64, 0, expected/len(puts)), newItems(number)
			for begin := time.Now(); begin.Before(end); {
				key, value := next()
				sent := time.Now()
				if err := put(key, value); err != nil {
					log.Fatal(err)
				}
				begin = time.Now()
				own = append(own, int64(begin.Sub(sent)))
			}
			took[number] = own
		})
	}
	group.Wait()
	return slices.Concat(took...)
}

func cpuUs() float64 {
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
		log.Fatal(err)
	}
	return float64(used.Utime.Nano()+used.Stime.Nano()) / 1e3
}

func trustOf(authority string) (*tls.Config, error) {
	if authority == "" {
		return nil, nil
	}
	pem, err := os.ReadFile(authority)
	if err != nil {
		return nil, err
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(pem)
	return &tls.Config{RootCAs: pool}, nil
}
