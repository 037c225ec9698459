package main

import (
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"os"
	"strconv"
	"strings"
	"unicode"

	"golang.org/x/net/http/httpproxy"
)

// hostPort refuses what no resolver would look up, at the start and not at each
// dial.
func hostPort(name, value string, minPort int) error {
	host, port, err := net.SplitHostPort(value)
	if err != nil || !isHost(host, strings.HasPrefix(value, "[")) {
		return fmt.Errorf("%s is %q: want host:port with a host name, an IPv4 address or an [IPv6] address, such as relay.example:8443", name, value)
	}
	n, err := strconv.Atoi(port)
	if err != nil || strconv.Itoa(n) != port || n < minPort || n > 65535 {
		return fmt.Errorf("%s is %q: want a port from %d to 65535 in plain digits", name, value, minPort)
	}
	return nil
}

// isHost is about the form of host, which stood in brackets or not.
func isHost(host string, inBrackets bool) bool {
	ip, err := netip.ParseAddr(host)
	if inBrackets || err == nil {
		return err == nil && inBrackets == ip.Is6() && ip.Zone() == ""
	}
	host = strings.TrimSuffix(host, ".")
	if len(host) > 253 {
		return false
	}
	labels := strings.Split(host, ".")
	for _, label := range labels {
		if !isLabel(label) {
			return false
		}
	}
	// Nothing but an address ends in a number, and this was none.
	_, err = strconv.ParseUint(labels[len(labels)-1], 0, 64)
	return err != nil
}

// isLabel takes an underscore too: names of containers have it.
func isLabel(s string) bool {
	if s == "" || len(s) > 63 || s[0] == '-' || s[len(s)-1] == '-' {
		return false
	}
	return strings.Trim(strings.ToLower(s), "abcdefghijklmnopqrstuvwxyz0123456789-_") == ""
}

// proxyProblem is about HTTPS_PROXY and NO_PROXY. What of them cannot be parsed
// would silently not count: the token would go past the proxy, or to it. It
// quotes no proxy, since that may hold a password.
func proxyProblem(addr string) error {
	proxies := httpproxy.FromEnvironment()
	if proxies.HTTPSProxy == "" {
		return nil
	}
	name := nameInUse("HTTPS_PROXY", "https_proxy")
	proxy, err := parseProxy(proxies.HTTPSProxy)
	if err != nil {
		return fmt.Errorf("%s cannot be parsed: want http://host:port, or unset it", name)
	}
	for entry := range strings.SplitSeq(proxies.NoProxy, ",") {
		if !isNoProxy(strings.TrimSpace(entry)) {
			return fmt.Errorf("%s holds %q: want hosts, addresses and networks with commas between them",
				nameInUse("NO_PROXY", "no_proxy"), entry)
		}
	}
	used, err := proxies.ProxyFunc()(&url.URL{Scheme: "https", Host: addr})
	if err != nil {
		return fmt.Errorf("%s cannot be used for this relay: want http://host:port, or unset it", name)
	}
	if used != nil && proxy.Scheme != "http" {
		return fmt.Errorf("%s has the scheme %q: want an http proxy, http://host:port, or the relay's host in NO_PROXY", name, proxy.Scheme)
	}
	return nil
}

// parseProxy takes host:port too, as httpproxy does, and checks what it does not.
func parseProxy(text string) (*url.URL, error) {
	if !strings.Contains(text, "://") {
		text = "http://" + text
	}
	u, err := url.Parse(text)
	if err != nil {
		return nil, err
	}
	host := u.Host
	if u.Port() == "" {
		host = strings.TrimSuffix(host, ":") + ":80"
	}
	return u, hostPort("proxy", host, 1)
}

// isNoProxy refuses networks that are none, and entries with spaces in them,
// which other programs take for two.
func isNoProxy(entry string) bool {
	if strings.ContainsFunc(entry, func(r rune) bool { return unicode.IsSpace(r) || !unicode.IsPrint(r) }) {
		return false
	}
	if strings.Contains(entry, "/") {
		_, _, err := net.ParseCIDR(entry)
		return err == nil
	}
	return true
}

// nameInUse is the first of the names that has a value.
func nameInUse(names ...string) string {
	for _, name := range names {
		if os.Getenv(name) != "" {
			return name
		}
	}
	return names[0]
}
