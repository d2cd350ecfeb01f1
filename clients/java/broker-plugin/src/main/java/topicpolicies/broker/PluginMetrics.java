package topicpolicies.broker;

import io.prometheus.client.Counter;
import io.prometheus.client.Gauge;
import java.util.function.DoubleSupplier;

/** The metrics of the plug-in on the broker's metrics page. There is one set per process, because the registry is global to the process. */
final class PluginMetrics {
    static final Counter UPDATES = Counter.build("topicpolicies_sidecar_updates", "Requests that changed a document").register();
    static final Counter CONFLICTS =
            Counter.build("topicpolicies_sidecar_conflicts", "Requests that were computed again because another writer was faster").register();
    static final Counter FAILURES = Counter.build("topicpolicies_sidecar_failures", "Updates and deletions that failed").register();
    private static final Gauge NAMESPACES = Gauge.build("topicpolicies_sidecar_namespaces", "Namespaces that are followed").register();
    private static final Gauge STALENESS =
            Gauge.build("topicpolicies_sidecar_staleness_seconds", "Age of the stalest copy of a namespace").register();

    private PluginMetrics() {
    }

    /** Makes the gauges show the values of a service. */
    static void show(DoubleSupplier namespaces, DoubleSupplier staleness) {
        NAMESPACES.setChild(live(namespaces));
        STALENESS.setChild(live(staleness));
    }

    private static Gauge.Child live(DoubleSupplier figure) {
        return new Gauge.Child() {
            @Override
            public double get() {
                return figure.getAsDouble();
            }
        };
    }
}
