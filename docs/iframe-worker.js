// A browser starts no worker for a page that was opened from a disk. There, the site's search runs in a hidden frame.
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(url) {
      super();
      const frame = document.createElement("iframe");
      frame.hidden = true;
      document.body.append(frame);
      const inside = frame.contentWindow;
      this.ready = new Promise((resolve) => {
        inside.answer = (data) => this.dispatchEvent(new MessageEvent("message", { data }));
        inside.started = resolve;
      });
      this.inside = inside;
      inside.document.write(
        "<script>postMessage = answer</script>",
        `<script src="${url}"></script>`,
        "<script>started()</script>",
      );
      inside.document.close();
    }

    async postMessage(data) {
      await this.ready;
      this.inside.dispatchEvent(new MessageEvent("message", { data }));
    }
  };
}
