package main

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"strings"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/client-go/tools/record"
	"k8s.io/utils/ptr"
)

// Discovery in one request and in one per group version must say the same, and a mapper can be made from it.
func (c *clients) discovery(context.Context) error {
	client, err := discovery.NewDiscoveryClientForConfig(c.config)
	if err != nil {
		return err
	}
	_, aggregated, err := client.ServerGroupsAndResources()
	if err != nil {
		return err
	}
	client.UseLegacyDiscovery = true
	_, legacy, err := client.ServerGroupsAndResources()
	if err != nil {
		return err
	}
	one, other := names(aggregated), names(legacy)
	for name := range one {
		if !other[name] {
			return fmt.Errorf("%s is only in aggregated discovery", name)
		}
	}
	if err = expect("resources", len(one), len(other)); err != nil {
		return err
	}
	mapper := restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(c.typed.Discovery()))
	mapping, err := mapper.RESTMapping(schema.GroupKind{Group: "rbac.authorization.k8s.io", Kind: "ClusterRole"})
	if err != nil {
		return err
	}
	if err = expect("scope", string(mapping.Scope.Name()), "root"); err != nil {
		return err
	}
	version, err := client.ServerVersion()
	if err != nil {
		return err
	}
	return expect("major", version.Major, "1")
}

func names(lists []*metav1.APIResourceList) map[string]bool {
	all := map[string]bool{}
	for _, list := range lists {
		for _, resource := range list.APIResources {
			all[list.GroupVersion+" "+resource.Name+" "+fmt.Sprint(resource.Verbs)] = true
		}
	}
	return all
}

// Both documents; version 2 comes as protobuf.
func (c *clients) openAPI(context.Context) error {
	paths, err := c.typed.Discovery().OpenAPIV3().Paths()
	if err != nil {
		return err
	}
	for _, group := range []string{"api/v1", "apis/rbac.authorization.k8s.io/v1"} {
		if paths[group] == nil {
			return fmt.Errorf("no document of %s", group)
		}
		body, err := paths[group].Schema("application/json")
		if err != nil {
			return err
		}
		if !strings.Contains(string(body), `"x-kubernetes-group-version-kind"`) {
			return fmt.Errorf("the document of %s names no kinds", group)
		}
	}
	document, err := c.typed.Discovery().OpenAPISchema()
	if err != nil {
		return err
	}
	for _, definition := range document.Definitions.AdditionalProperties {
		if definition.Name == "io.k8s.api.core.v1.ConfigMap" {
			return nil
		}
	}
	return fmt.Errorf("no ConfigMap in the document of version 2")
}

func (c *clients) events(ctx context.Context) error {
	about, err := c.typed.CoreV1().ConfigMaps(namespace).Create(ctx, configMap("eventful", nil), metav1.CreateOptions{})
	if err != nil {
		return err
	}
	broadcaster := record.NewBroadcaster()
	defer broadcaster.Shutdown()
	broadcaster.StartRecordingToSink(&typedcorev1.EventSinkImpl{Interface: c.typed.CoreV1().Events("")})
	recorder := broadcaster.NewRecorder(scheme.Scheme, corev1.EventSource{Component: "peer"})
	// The second of the same is a patch of the first, sent as a strategic merge patch.
	for range 2 {
		recorder.Event(about, corev1.EventTypeNormal, "Tried", "this is a message")
	}
	selector := "involvedObject.name=eventful,reason=Tried"
	return eventually(ctx, "an event that was counted twice", func() (bool, error) {
		list, err := c.typed.CoreV1().Events(namespace).List(ctx, metav1.ListOptions{FieldSelector: selector})
		if err != nil {
			return false, err
		}
		return len(list.Items) == 1 && list.Items[0].Count == 2, nil
	})
}

// The first leads, gives up, and the second takes over.
func (c *clients) leaderElection(ctx context.Context) error {
	first, stop := context.WithCancel(ctx)
	defer stop()
	leading := make(chan string, 2)
	lead := func(ctx context.Context, name string) {
		lock := &resourcelock.LeaseLock{
			LeaseMeta:  metav1.ObjectMeta{Name: "leader", Namespace: namespace},
			Client:     c.typed.CoordinationV1(),
			LockConfig: resourcelock.ResourceLockConfig{Identity: name},
		}
		leaderelection.RunOrDie(ctx, leaderelection.LeaderElectionConfig{
			Lock: lock, LeaseDuration: 6 * time.Second, RenewDeadline: 4 * time.Second,
			RetryPeriod: 200 * time.Millisecond, ReleaseOnCancel: true,
			Callbacks: leaderelection.LeaderCallbacks{
				OnStartedLeading: func(context.Context) { leading <- name },
				OnStoppedLeading: func() {},
			},
		})
	}
	go lead(first, "one")
	if err := expectLeader(ctx, leading, "one"); err != nil {
		return err
	}
	go lead(ctx, "two")
	stop()
	return expectLeader(ctx, leading, "two")
}

func expectLeader(ctx context.Context, leading <-chan string, expected string) error {
	select {
	case name := <-leading:
		return expect("leader", name, expected)
	case <-ctx.Done():
		return fmt.Errorf("%s does not lead", expected)
	}
}

func (c *clients) namespaces(ctx context.Context) error {
	spaces := c.typed.CoreV1().Namespaces()
	made := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "peer-"}}
	made, err := spaces.Create(ctx, made, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	if err = expect("phase", made.Status.Phase, corev1.NamespaceActive); err != nil {
		return err
	}
	if _, err = c.typed.CoreV1().ConfigMaps(made.Name).Create(ctx, configMap("within", nil), metav1.CreateOptions{}); err != nil {
		return err
	}
	if err = spaces.Delete(ctx, made.Name, metav1.DeleteOptions{}); err != nil {
		return err
	}
	_, err = c.typed.CoreV1().ConfigMaps(made.Name).Create(ctx, configMap("late", nil), metav1.CreateOptions{})
	if !apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) && !apierrors.IsNotFound(err) {
		return fmt.Errorf("creating in a namespace that goes: %v", err)
	}
	if !controllers() {
		return nil
	}
	return eventually(ctx, "the namespace to go", func() (bool, error) {
		_, err := spaces.Get(ctx, made.Name, metav1.GetOptions{})
		return apierrors.IsNotFound(err), nil
	})
}

// A token for an account, with which one then is that account.
func (c *clients) tokens(ctx context.Context) error {
	accounts := c.typed.CoreV1().ServiceAccounts(namespace)
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "robot"}}
	if _, err := accounts.Create(ctx, account, metav1.CreateOptions{}); err != nil {
		return err
	}
	request := &authenticationv1.TokenRequest{
		Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: ptr.To[int64](600)}}
	token, err := accounts.CreateToken(ctx, "robot", request, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	config := rest.AnonymousClientConfig(c.config)
	config.BearerToken = token.Status.Token
	robot, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	self, err := robot.AuthenticationV1().SelfSubjectReviews().Create(ctx,
		&authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	if err = expect("user", self.Status.UserInfo.Username, "system:serviceaccount:"+namespace+":robot"); err != nil {
		return err
	}
	review := &authenticationv1.TokenReview{Spec: authenticationv1.TokenReviewSpec{Token: token.Status.Token}}
	reviewed, err := c.typed.AuthenticationV1().TokenReviews().Create(ctx, review, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	if err = expect("authenticated", reviewed.Status.Authenticated, true); err != nil {
		return err
	}
	_, err = robot.CoreV1().Secrets(namespace).List(ctx, metav1.ListOptions{})
	if !apierrors.IsForbidden(err) {
		return fmt.Errorf("listing secrets without a role: %v", err)
	}
	return nil
}

func (c *clients) accessReviews(ctx context.Context) error {
	attributes := authorizationv1.ResourceAttributes{Namespace: namespace, Verb: "delete", Resource: "secrets"}
	own := &authorizationv1.SelfSubjectAccessReview{
		Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: &attributes}}
	mine, err := c.typed.AuthorizationV1().SelfSubjectAccessReviews().Create(ctx, own, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	other := &authorizationv1.SubjectAccessReview{
		Spec: authorizationv1.SubjectAccessReviewSpec{User: "nobody", ResourceAttributes: &attributes}}
	theirs, err := c.typed.AuthorizationV1().SubjectAccessReviews().Create(ctx, other, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	rules := &authorizationv1.SelfSubjectRulesReview{
		Spec: authorizationv1.SelfSubjectRulesReviewSpec{Namespace: namespace}}
	all, err := c.typed.AuthorizationV1().SelfSubjectRulesReviews().Create(ctx, rules, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	if !mine.Status.Allowed || theirs.Status.Allowed || len(all.Status.ResourceRules) == 0 {
		return fmt.Errorf("allowed: %v, %v, %v", mine.Status, theirs.Status, all.Status)
	}
	return nil
}

// A request that is approved, and signed where there is a signer.
func (c *clients) certificateRequests(ctx context.Context) error {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	subject := pkix.Name{CommonName: "jane", Organization: []string{"peers"}}
	der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{Subject: subject}, key)
	if err != nil {
		return err
	}
	requests := c.typed.CertificatesV1().CertificateSigningRequests()
	made, err := requests.Create(ctx, &certificatesv1.CertificateSigningRequest{
		ObjectMeta: metav1.ObjectMeta{Name: "jane"},
		Spec: certificatesv1.CertificateSigningRequestSpec{
			Request:           pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der}),
			SignerName:        certificatesv1.KubeAPIServerClientSignerName,
			ExpirationSeconds: ptr.To[int32](3600),
			Usages:            []certificatesv1.KeyUsage{certificatesv1.UsageDigitalSignature, certificatesv1.UsageClientAuth},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	if made.Spec.Username == "" {
		return fmt.Errorf("nobody asked")
	}
	made.Status.Conditions = append(made.Status.Conditions, certificatesv1.CertificateSigningRequestCondition{
		Type: certificatesv1.CertificateApproved, Status: corev1.ConditionTrue, Reason: "Peer", Message: "approved"})
	if _, err = requests.UpdateApproval(ctx, "jane", made, metav1.UpdateOptions{}); err != nil {
		return err
	}
	if !controllers() {
		return nil
	}
	return eventually(ctx, "a certificate", func() (bool, error) {
		signed, err := requests.Get(ctx, "jane", metav1.GetOptions{})
		if err != nil || len(signed.Status.Certificate) == 0 {
			return false, err
		}
		block, _ := pem.Decode(signed.Status.Certificate)
		if block == nil {
			return false, fmt.Errorf("the certificate is not PEM")
		}
		certificate, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return false, err
		}
		return true, expect("subject", certificate.Subject.CommonName, "jane")
	})
}
