package main

import (
	"context"
	"fmt"
	"os"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
)

// Follows changes in protobuf and in JSON, then resumes from a version in between.
func (c *clients) watch(ctx context.Context) error {
	for name, client := range map[string]kubernetes.Interface{"protobuf": c.typed, "json": c.json} {
		if err := follow(ctx, client, "watched-"+name); err != nil {
			return fmt.Errorf("in %s: %w", name, err)
		}
	}
	return nil
}

func follow(ctx context.Context, client kubernetes.Interface, name string) error {
	maps := client.CoreV1().ConfigMaps(namespace)
	start, err := maps.List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	only := "metadata.name=" + name
	events, err := maps.Watch(ctx, metav1.ListOptions{FieldSelector: only, ResourceVersion: start.ResourceVersion})
	if err != nil {
		return err
	}
	defer events.Stop()
	made, err := maps.Create(ctx, configMap(name, map[string]string{"a": "1"}), metav1.CreateOptions{})
	if err != nil {
		return err
	}
	changed := made.DeepCopy()
	changed.Data["a"] = "2"
	if _, err = maps.Update(ctx, changed, metav1.UpdateOptions{}); err != nil {
		return err
	}
	if err = maps.Delete(ctx, name, metav1.DeleteOptions{}); err != nil {
		return err
	}
	if err = expectEvents(ctx, events, "ADDED=1 MODIFIED=2 DELETED=2"); err != nil {
		return err
	}
	again, err := maps.Watch(ctx, metav1.ListOptions{FieldSelector: only, ResourceVersion: made.ResourceVersion})
	if err != nil {
		return err
	}
	defer again.Stop()
	return expectEvents(ctx, again, "MODIFIED=2 DELETED=2")
}

func expectEvents(ctx context.Context, events watch.Interface, expected string) error {
	var seen []string
	for len(seen) < len(strings.Fields(expected)) {
		select {
		case event, open := <-events.ResultChan():
			if !open {
				return fmt.Errorf("the watch ended after %v", seen)
			}
			object, is := event.Object.(*corev1.ConfigMap)
			if !is {
				return fmt.Errorf("an event with %T: %v", event.Object, event.Object)
			}
			seen = append(seen, fmt.Sprintf("%s=%s", event.Type, object.Data["a"]))
		case <-ctx.Done():
			return fmt.Errorf("only %v came", seen)
		}
	}
	return expect("events", strings.Join(seen, " "), expected)
}

// A shared informer that fills its cache, then follows a change; the requests show how it did so.
func (c *clients) informer(streaming bool) error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	maps := c.typed.CoreV1().ConfigMaps(namespace)
	prefix := "informed-" + os.Args[1]
	if _, err := maps.Create(ctx, configMap(prefix+"-before", nil), metav1.CreateOptions{}); err != nil {
		return err
	}
	seen := make(chan string, 1000)
	sent, err := c.traffic.during(func() error {
		factory := informers.NewSharedInformerFactoryWithOptions(c.typed, time.Minute, informers.WithNamespace(namespace))
		informer := factory.Core().V1().ConfigMaps()
		_, err := informer.Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
			AddFunc:    func(object any) { seen <- "added " + object.(*corev1.ConfigMap).Name },
			UpdateFunc: func(_, object any) { seen <- "changed " + object.(*corev1.ConfigMap).Name },
			DeleteFunc: func(object any) { seen <- "deleted " + object.(*corev1.ConfigMap).Name },
		})
		if err != nil {
			return err
		}
		factory.Start(ctx.Done())
		for kind, synced := range factory.WaitForCacheSync(ctx.Done()) {
			if !synced {
				return fmt.Errorf("the cache of %v was not filled", kind)
			}
		}
		if _, err = informer.Lister().ConfigMaps(namespace).Get(prefix + "-before"); err != nil {
			return err
		}
		return c.changeWhileInformed(ctx, prefix+"-after", seen)
	})
	if err != nil {
		return err
	}
	return expectHow(sent, streaming)
}

func (c *clients) changeWhileInformed(ctx context.Context, name string, seen <-chan string) error {
	maps := c.typed.CoreV1().ConfigMaps(namespace)
	made, err := maps.Create(ctx, configMap(name, nil), metav1.CreateOptions{})
	if err != nil {
		return err
	}
	made.Data = map[string]string{"a": "1"}
	if _, err = maps.Update(ctx, made, metav1.UpdateOptions{}); err != nil {
		return err
	}
	if err = maps.Delete(ctx, name, metav1.DeleteOptions{}); err != nil {
		return err
	}
	for _, awaited := range []string{"added ", "changed ", "deleted "} {
		for {
			select {
			case event := <-seen:
				if event == awaited+name {
					goto next
				}
			case <-ctx.Done():
				return fmt.Errorf("not told: %s%s", awaited, name)
			}
		}
	next:
	}
	return nil
}

// An informer that is refused the stream silently lists instead, so look at what it sent.
func expectHow(sent []request, streaming bool) error {
	var listed, streamed bool
	for _, request := range sent {
		if request.method != "GET" || !strings.HasSuffix(request.path, "/configmaps") {
			continue
		}
		streamed = streamed || strings.Contains(request.query, "sendInitialEvents=true")
		listed = listed || !strings.Contains(request.query, "watch=true")
	}
	if streamed != streaming || listed == streaming {
		return fmt.Errorf("streamed: %v, listed: %v", streamed, listed)
	}
	return nil
}
