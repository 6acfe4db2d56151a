# Web proxy: a cached object is replaced, then five are read; one directory.
set $dir=/filebench
set $nfiles=10000
set $dirwidth=1000000
set $filesize=16k
set $nthreads=100
set $iosize=1m
set $appendsize=16k
define fileset name=tree,path=$dir,size=$filesize,entries=$nfiles,dirwidth=$dirwidth,prealloc=80
define process name=main,instances=1 {
  thread name=worker,memsize=10m,instances=$nthreads {
    flowop deletefile name=delete1,filesetname=tree
    flowop createfile name=create1,filesetname=tree,fd=1
    flowop appendfilerand name=append1,iosize=$appendsize,fd=1
    flowop closefile name=close1,fd=1
    flowop openfile name=open2,filesetname=tree,fd=1
    flowop readwholefile name=read2,fd=1,iosize=$iosize
    flowop closefile name=close2,fd=1
    flowop openfile name=open3,filesetname=tree,fd=1
    flowop readwholefile name=read3,fd=1,iosize=$iosize
    flowop closefile name=close3,fd=1
    flowop openfile name=open4,filesetname=tree,fd=1
    flowop readwholefile name=read4,fd=1,iosize=$iosize
    flowop closefile name=close4,fd=1
    flowop openfile name=open5,filesetname=tree,fd=1
    flowop readwholefile name=read5,fd=1,iosize=$iosize
    flowop closefile name=close5,fd=1
    flowop openfile name=open6,filesetname=tree,fd=1
    flowop readwholefile name=read6,fd=1,iosize=$iosize
    flowop closefile name=close6,fd=1
    flowop opslimit name=limit
  }
}
