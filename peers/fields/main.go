// Command fields writes the field tables of the kinds that lanyard serves, as upstream's Go types and
// OpenAPI definitions have them: names, order, types, protobuf numbers, and how values merge. Only facts
// are taken; upstream's descriptions stay where they are.
//
// Usage: go run . > ../../crates/lanyard-server/src/schema/kubernetes.fields
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"os"
	"reflect"
	"slices"
	"sort"
	"strings"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	apidiscoveryv2 "k8s.io/api/apidiscovery/v2"
	apiserverinternalv1alpha1 "k8s.io/api/apiserverinternal/v1alpha1"
	appsv1 "k8s.io/api/apps/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	certificatesv1alpha1 "k8s.io/api/certificates/v1alpha1"
	certificatesv1beta1 "k8s.io/api/certificates/v1beta1"
	coordinationv1 "k8s.io/api/coordination/v1"
	coordinationv1beta1 "k8s.io/api/coordination/v1beta1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	storagemigrationv1beta1 "k8s.io/api/storagemigration/v1beta1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	"k8s.io/kube-openapi/pkg/common"
	"k8s.io/kube-openapi/pkg/validation/spec"
	"k8s.io/kubernetes/pkg/generated/openapi"
)

// roots are the kinds; what they are made of follows.
var roots = []any{
	corev1.ConfigMap{}, corev1.Event{}, corev1.Namespace{}, corev1.Node{}, corev1.Pod{}, corev1.PodTemplate{},
	corev1.ResourceQuota{}, corev1.Secret{}, corev1.Service{}, corev1.ServiceAccount{},
	admissionregistrationv1.MutatingAdmissionPolicy{}, admissionregistrationv1.MutatingAdmissionPolicyBinding{},
	admissionregistrationv1.MutatingWebhookConfiguration{}, admissionregistrationv1.ValidatingAdmissionPolicy{},
	admissionregistrationv1.ValidatingAdmissionPolicyBinding{}, admissionregistrationv1.ValidatingWebhookConfiguration{},
	apiextensionsv1.CustomResourceDefinition{},
	apiregistrationv1.APIService{},
	apiserverinternalv1alpha1.StorageVersion{},
	appsv1.Deployment{}, appsv1.ReplicaSet{},
	authenticationv1.SelfSubjectReview{}, authenticationv1.TokenRequest{}, authenticationv1.TokenReview{},
	authorizationv1.LocalSubjectAccessReview{}, authorizationv1.SelfSubjectAccessReview{},
	authorizationv1.SelfSubjectRulesReview{}, authorizationv1.SubjectAccessReview{},
	autoscalingv1.Scale{},
	certificatesv1.CertificateSigningRequest{},
	certificatesv1alpha1.ClusterTrustBundle{}, certificatesv1beta1.ClusterTrustBundle{},
	coordinationv1.Lease{}, coordinationv1beta1.LeaseCandidate{},
	eventsv1.Event{},
	flowcontrolv1.FlowSchema{}, flowcontrolv1.PriorityLevelConfiguration{},
	rbacv1.ClusterRole{}, rbacv1.ClusterRoleBinding{}, rbacv1.Role{}, rbacv1.RoleBinding{},
	storagemigrationv1beta1.StorageVersionMigration{},
	metav1.APIGroup{}, metav1.APIGroupList{}, metav1.APIResourceList{}, metav1.APIVersions{},
	metav1.CreateOptions{}, metav1.DeleteOptions{}, metav1.ListMeta{}, metav1.PartialObjectMetadata{},
	metav1.PatchOptions{}, metav1.Status{}, metav1.UpdateOptions{},
	apidiscoveryv2.APIGroupDiscoveryList{},
}

// promoted are the types that the next release serves in another version, with the same fields: from
// their names there to their names here.
var promoted = map[string]string{
	"io.k8s.api.certificates.v1.ClusterTrustBundle":     "io.k8s.api.certificates.v1beta1.ClusterTrustBundle",
	"io.k8s.api.certificates.v1.ClusterTrustBundleSpec": "io.k8s.api.certificates.v1beta1.ClusterTrustBundleSpec",
}

// scalars are the types whose JSON or protobuf form is their own affair.
var scalars = map[reflect.Type]string{
	reflect.TypeOf(metav1.Time{}):                                  "time",
	reflect.TypeOf(metav1.MicroTime{}):                             "microtime",
	reflect.TypeOf(intstr.IntOrString{}):                           "int-or-string",
	reflect.TypeOf(resource.Quantity{}):                            "quantity",
	reflect.TypeOf(runtime.RawExtension{}):                         "raw",
	reflect.TypeOf(metav1.FieldsV1{}):                              "raw",
	reflect.TypeOf(apiextensionsv1.JSON{}):                         "raw",
	reflect.TypeOf(apiextensionsv1.JSONSchemaPropsOrArray{}):       "schema-or-list",
	reflect.TypeOf(apiextensionsv1.JSONSchemaPropsOrBool{}):        "schema-or-bool",
	reflect.TypeOf(apiextensionsv1.JSONSchemaPropsOrStringArray{}): "schema-or-strings",
}

var typeMeta = reflect.TypeOf(metav1.TypeMeta{})

type modelNamer interface{ OpenAPIModelName() string }

func main() {
	log.SetFlags(0)
	definitions := openapi.GetOpenAPIDefinitions(func(name string) spec.Ref { return spec.MustCreateRef(name) })
	found := map[string]reflect.Type{}
	for _, root := range roots {
		collect(reflect.TypeOf(root), found)
	}
	names := make([]string, 0, len(found))
	for name := range found {
		names = append(names, name)
	}
	for name := range promoted {
		names = append(names, name)
	}
	sort.Strings(names)
	out := bufio.NewWriter(os.Stdout)
	defer out.Flush()
	fmt.Fprintln(out, "# The fields of built-in kinds, made by peers/fields from Kubernetes' Go types; schema/catalog.rs reads it.")
	for _, name := range names {
		if present, ok := promoted[name]; ok {
			var text strings.Builder
			write(&text, present, found[present], definitions)
			fmt.Fprint(out, strings.ReplaceAll(text.String(), "v1beta1.", "v1."))
			continue
		}
		write(out, name, found[name], definitions)
	}
}

// collect finds every struct that a type is made of.
func collect(t reflect.Type, found map[string]reflect.Type) {
	switch t.Kind() {
	case reflect.Pointer, reflect.Slice, reflect.Map:
		collect(t.Elem(), found)
	case reflect.Struct:
		if t == typeMeta {
			return
		}
		if scalar, ok := scalars[t]; ok {
			if strings.HasPrefix(scalar, "schema-") {
				collect(reflect.TypeOf(apiextensionsv1.JSONSchemaProps{}), found)
			}
			return
		}
		name := model(t)
		if _, ok := found[name]; ok {
			return
		}
		found[name] = t
		for i := range t.NumField() {
			collect(t.Field(i).Type, found)
		}
	}
}

func model(t reflect.Type) string {
	named, ok := reflect.Zero(t).Interface().(modelNamer)
	if !ok {
		log.Fatalf("%v has no model name", t)
	}
	return named.OpenAPIModelName()
}

func write(out io.Writer, name string, t reflect.Type, definitions map[string]common.OpenAPIDefinition) {
	definition, ok := definitions[name]
	if !ok {
		log.Fatalf("%s has no definition", name)
	}
	fmt.Fprintf(out, "\n%s %s", name, t)
	if kind, ok := definition.Schema.Extensions.GetString("x-kubernetes-map-type"); ok {
		fmt.Fprintf(out, " map=%s", kind)
	}
	fmt.Fprintln(out)
	writeFields(out, t, definition.Schema.SchemaProps, "")
}

// writeFields writes one line a field; via are the numbers of the messages, outermost first, that fields
// written inline in JSON are in.
func writeFields(out io.Writer, t reflect.Type, schema spec.SchemaProps, via string) {
	for i := range t.NumField() {
		field := t.Field(i)
		tag := strings.Split(field.Tag.Get("json"), ",")
		number := protobufNumber(field)
		if field.Type == typeMeta {
			// Kind and version are in the envelope of a protobuf message.
			fmt.Fprintln(out, "  kind string omitempty")
			fmt.Fprintln(out, "  apiVersion string omitempty")
			continue
		}
		if tag[0] == "" && slices.Contains(tag, "inline") {
			writeFields(out, field.Type, schema, strings.Trim(via+"."+number, "."))
			continue
		}
		if tag[0] == "-" || tag[0] == "" {
			continue
		}
		line := []string{"  " + tag[0], typeName(field.Type), presence(field, tag[1:])}
		if number != "" {
			line = append(line, "n="+number)
		}
		if via != "" {
			line = append(line, "via="+via)
		}
		property, ok := schema.Properties[tag[0]]
		if !ok {
			log.Fatalf("%v.%s is not in the definition", t, tag[0])
		}
		required, written := slices.Contains(schema.Required, tag[0]), line[2] == "always"
		line = append(line, attributes(field, property, required, written)...)
		fmt.Fprintln(out, strings.Join(line, " "))
	}
}

func protobufNumber(field reflect.StructField) string {
	tag := strings.Split(field.Tag.Get("protobuf"), ",")
	if len(tag) < 2 {
		return ""
	}
	return tag[1]
}

// presence is what encoding/json does with the field when it is empty.
func presence(field reflect.StructField, options []string) string {
	omitEmpty, omitZero := slices.Contains(options, "omitempty"), slices.Contains(options, "omitzero")
	switch {
	case field.Type.Kind() == reflect.Pointer && (omitEmpty || omitZero):
		return "pointer"
	case field.Type.Kind() == reflect.Pointer:
		return "nullable"
	case omitZero:
		return "omitempty"
	case omitEmpty && field.Type.Kind() != reflect.Struct:
		return "omitempty"
	default:
		return "always"
	}
}

// attributes are the facts about a field that need not be there; written says whether it is encoded when
// it is empty, so that a default that is its zero value says nothing.
func attributes(field reflect.StructField, property spec.Schema, required, written bool) []string {
	var line []string
	if required {
		line = append(line, "required")
	}
	for key, short := range map[string]string{"x-kubernetes-list-type": "list", "x-kubernetes-map-type": "map"} {
		if value, ok := property.Extensions.GetString(key); ok {
			line = append(line, short+"="+value)
		}
	}
	if keys, ok := property.Extensions.GetStringSlice("x-kubernetes-list-map-keys"); ok {
		line = append(line, "keys="+strings.Join(keys, ","))
	}
	if strategy := field.Tag.Get("patchStrategy"); strategy != "" {
		line = append(line, "patch="+strategy)
	}
	if key := field.Tag.Get("patchMergeKey"); key != "" {
		line = append(line, "patch-key="+key)
	}
	if property.Format != "" && property.Format != "int32" && property.Format != "int64" && property.Format != "byte" && property.Format != "double" {
		line = append(line, "format="+property.Format)
	}
	allowed := property.Enum
	if property.Items != nil && property.Items.Schema != nil {
		// What the items of a list may be.
		allowed = append(allowed, property.Items.Schema.Enum...)
	}
	if len(allowed) > 0 {
		var values []string
		for _, value := range allowed {
			// Words are told apart by spaces.
			values = append(values, strings.ReplaceAll(fmt.Sprint(value), " ", "~"))
		}
		line = append(line, "enum="+strings.Join(values, "|"))
	}
	sort.Strings(line)
	if property.Default != nil && (!written || !isZero(property.Default)) {
		text, err := json.Marshal(property.Default)
		if err != nil || strings.ContainsAny(string(text), " ") {
			log.Fatalf("%s: default %v", field.Name, property.Default)
		}
		line = append(line, "default="+string(text))
	}
	return line
}

// isZero tells the defaults that only say what Go's zero value is.
func isZero(value any) bool {
	if value == nil || reflect.ValueOf(value).IsZero() {
		return true
	}
	fields, ok := value.(map[string]any)
	return ok && len(fields) == 0
}

func typeName(t reflect.Type) string {
	if scalar, ok := scalars[t]; ok {
		return scalar
	}
	switch t.Kind() {
	case reflect.Pointer:
		return typeName(t.Elem())
	case reflect.Slice:
		if t.Elem().Kind() == reflect.Uint8 {
			return "bytes"
		}
		// A named list is a message of its own in protobuf, where it is the value of a map.
		if t.Name() == "ExtraValue" {
			return "boxed:" + typeName(t.Elem())
		}
		return "[]" + typeName(t.Elem())
	case reflect.Map:
		return "{}" + typeName(t.Elem())
	case reflect.Struct:
		return model(t)
	case reflect.String:
		if t.String() == "string" {
			return "string"
		}
		return "string:" + t.String()
	case reflect.Bool:
		return "bool"
	case reflect.Int32:
		return "int32"
	case reflect.Int64:
		return "int64"
	case reflect.Float64:
		return "double"
	default:
		log.Fatalf("what is %v?", t)
		return ""
	}
}
