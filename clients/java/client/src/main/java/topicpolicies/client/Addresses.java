package topicpolicies.client;

import io.grpc.EquivalentAddressGroup;
import io.grpc.NameResolver;
import io.grpc.NameResolverProvider;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.SocketAddress;
import java.net.URI;
import java.net.UnknownHostException;
import java.util.ArrayList;
import java.util.Collection;
import java.util.List;
import java.util.Set;

/**
 * Targets with several addresses, {@code ipv4:10.0.0.1:6680,10.0.0.2:6680}, as gRPC has them in other languages. The channel uses the first
 * address that it can connect to.
 */
final class Addresses extends NameResolverProvider {
    private static final String SCHEME = "ipv4";

    @Override
    protected boolean isAvailable() {
        return true;
    }

    @Override
    protected int priority() {
        return 5;
    }

    @Override
    public String getDefaultScheme() {
        return SCHEME;
    }

    @Override
    public Collection<Class<? extends SocketAddress>> getProducedSocketAddressTypes() {
        return Set.of(InetSocketAddress.class);
    }

    @Override
    public NameResolver newNameResolver(URI target, NameResolver.Args args) {
        if (!SCHEME.equals(target.getScheme())) {
            return null;
        }
        String text = target.getSchemeSpecificPart();
        List<EquivalentAddressGroup> addresses = new ArrayList<>();
        for (String address : text.split(",")) {
            addresses.add(new EquivalentAddressGroup(parse(address)));
        }
        return new NameResolver() {
            @Override
            public String getServiceAuthority() {
                return text.split(",")[0];
            }

            @Override
            public void start(Listener2 listener) {
                listener.onResult(ResolutionResult.newBuilder().setAddressesOrError(io.grpc.StatusOr.fromValue(addresses)).build());
            }

            @Override
            public void shutdown() {
                // there is nothing to end
            }
        };
    }

    private static InetSocketAddress parse(String address) {
        int colon = address.lastIndexOf(':');
        try {
            return new InetSocketAddress(InetAddress.getByName(address.substring(0, colon)), Integer.parseInt(address.substring(colon + 1)));
        } catch (UnknownHostException | RuntimeException wrong) {
            throw new IllegalArgumentException("not an address and a port: " + address, wrong);
        }
    }
}
