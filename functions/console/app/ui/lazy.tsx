import type { ComponentType } from "preact";
import { useEffect, useState } from "preact/hooks";
import { Notice, Waiting } from "./feedback";
import { Button } from "./button";
import { laterStyle } from "./later-style";

type Loader<P> = () => Promise<ComponentType<P>>;

/** A component whose code is loaded when it is first shown. */
export function lazy<P extends object>(load: Loader<P>): ComponentType<P> {
  let loaded: ComponentType<P> | undefined;
  return function Lazy(props: P) {
    const [Loaded, setLoaded] = useState<ComponentType<P> | undefined>(() => loaded);
    const [failed, setFailed] = useState(false);
    useEffect(() => {
      if (Loaded !== undefined || failed) {
        return;
      }
      let shown = true;
      Promise.all([load(), laterStyle()]).then(
        ([component]) => {
          loaded = component;
          if (shown) {
            setLoaded(() => component);
          }
        },
        () => shown && setFailed(true),
      );
      return () => {
        shown = false;
      };
    }, [Loaded, failed]);
    if (failed) {
      return <LoadFailure />;
    }
    return Loaded === undefined ? <Waiting what="the page" /> : <Loaded {...props} />;
  };
}

/** A file that is gone usually means that the service was updated, so the whole page is loaded again. */
function LoadFailure() {
  const reload = (
    <Button icon="refresh" onClick={() => location.reload()}>
      Reload the console
    </Button>
  );
  return (
    <Notice tone="bad" live actions={reload}>
      A part of the console could not be loaded. The service may have been updated.
    </Notice>
  );
}
