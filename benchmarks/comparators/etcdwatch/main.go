// Put, and wait for the event on a watch of its own connection, one after the other: what `put -> watch` costs a
// program that uses etcd's client for Go. (etcd's own `benchmark watch-latency` starts its clock only after the put was
// acknowledged, when the event has often arrived already.)
//
//	etcdwatch -endpoint HOST:PORT [-total N] [-keybytes N] [-valuebytes N]
//
// Prints JSON: microseconds from before the put until the event is in hand, at p50 and p99, and CPU an event.
package main

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"flag"
	"fmt"
	"log"
	"os"
	"slices"
	"syscall"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
)

const warmUp = 200

func main() {
	endpoint := flag.String("endpoint", "127.0.0.1:2379", "of etcd")
	total := flag.Int("total", 2000, "events that are measured")
	keyBytes := flag.Int("keybytes", 59, "length of keys")
	valueBytes := flag.Int("valuebytes", 889, "length of values")
	flag.Parse()
	run := make([]byte, 8)
	if _, err := rand.Read(run); err != nil {
		log.Fatal(err)
	}
	prefix := hex.EncodeToString(run) + "/"
	writer, watcher := connect(*endpoint), connect(*endpoint)
	events := watcher.Watch(context.Background(), prefix, clientv3.WithPrefix(), clientv3.WithCreatedNotify())
	<-events
	value := string(make([]byte, *valueBytes))
	var before float64
	micros := make([]float64, 0, *total)
	for number := range warmUp + *total {
		if number == warmUp {
			before = cpuMicros()
		}
		key := fmt.Sprintf("%s%0*d", prefix, *keyBytes-len(prefix), number)
		took := putAndWatch(writer, events, key, value)
		if number >= warmUp {
			micros = append(micros, float64(took.Nanoseconds())/1e3)
		}
	}
	cpu := (cpuMicros() - before) / float64(*total)
	slices.Sort(micros)
	said := map[string]float64{
		"p50_us": micros[len(micros)/2], "p99_us": micros[len(micros)*99/100], "cpu_us_per_event": cpu,
	}
	if err := json.NewEncoder(os.Stdout).Encode(said); err != nil {
		log.Fatal(err)
	}
}

// putAndWatch measures one event; the watch is read in this goroutine, while another one awaits the put's answer.
func putAndWatch(writer *clientv3.Client, events clientv3.WatchChan, key, value string) time.Duration {
	acknowledged := make(chan error, 1)
	began := time.Now()
	go func() {
		_, err := writer.Put(context.Background(), key, value)
		acknowledged <- err
	}()
	batch := <-events
	took := time.Since(began)
	if err := <-acknowledged; err != nil {
		log.Fatal(err)
	}
	if len(batch.Events) != 1 || string(batch.Events[0].Kv.Key) != key {
		log.Fatalf("not the event of %s: %v", key, batch.Events)
	}
	return took
}

func connect(endpoint string) *clientv3.Client {
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{endpoint}, DialTimeout: 5 * time.Second})
	if err != nil {
		log.Fatal(err)
	}
	return client
}

// cpuMicros is what this process has used so far.
func cpuMicros() float64 {
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
		log.Fatal(err)
	}
	return float64(used.Utime.Nano()+used.Stime.Nano()) / 1e3
}
