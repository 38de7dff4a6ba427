# A base made on this machine (deploy/image/rootfs), where no registry has one. Not imported: that would put the time into its digest.
FROM scratch
ARG ROOTFS
# hadolint ignore=DL3020
ADD ${ROOTFS} /
